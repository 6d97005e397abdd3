"""What a run ran on: code, machine, software. Recorded, shown in reports, never secret."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from harness.engines.vllm import flavour
from harness.paths import package_or_checkout

_PACKAGE = Path(__file__).resolve().parents[1]
_SOFTWARE = ("torch", "transformers", "lm-eval", "numpy", "scipy", "pandas")


@cache
def code_digest() -> str:
    """sha256 over the package's and the tasks' sources: tells whether code is the same."""
    digest = hashlib.sha256()
    roots = (_PACKAGE, package_or_checkout("tasks"))
    for root in roots:
        files = sorted(p for p in root.rglob("*") if p.suffix in {".py", ".yaml"})
        for path in files:
            digest.update(str(path.relative_to(root)).encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


@cache
def commit() -> str:
    """Git commit with ``-dirty`` where the tree differs, else the version; plus code digest."""
    root = _PACKAGE.parent
    head = _git(root, "rev-parse", "HEAD") if (root / ".git").exists() else None
    if head is None:
        name = f"v{version()}"
    else:
        dirty = _git(root, "status", "--porcelain", "--untracked-files=no")
        name = head[:12] + ("-dirty" if dirty else "")
    return f"{name} ({code_digest()[:12]})"


def version() -> str:
    """Return the installed version of the harness."""
    return metadata.version("specprefill-harness")


def software() -> dict[str, str]:
    """Versions of what results depend on."""
    found = {"harness": version(), "python": platform.python_version()}
    for name in _SOFTWARE:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    vllm = flavour.installed()
    if vllm is not None:
        found["vllm"] = f"{vllm.distribution} {vllm.version}"
    return found


def machine() -> dict[str, Any]:
    """CPU, memory, GPU; ``class`` tells whether two runs' times may stand side by side."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    gpus = _gpus()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    name = cpu_model()
    return {
        "cpu": name,
        "cpus": cpus,
        "memory_gib": round(memory / 2**30, 1),
        "gpus": gpus,
        "system": f"{platform.system()} {platform.machine()}",
        "class": f"{len(gpus)}x {gpus[0]}" if gpus else f"cpu-{platform.machine()}-{cpus}",
    }


def cpu_model() -> str:
    """Return the processor's own name."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def command_line() -> str:
    """Return the command as a user would type it; values of secret-looking options are hidden."""
    words = ["harness", *sys.argv[1:]]
    secret = ("token", "key", "password", "secret")
    shown = []
    hide = False
    for word in words:
        name, equals, _ = word.partition("=")
        is_secret = name.startswith("--") and any(s in name.lower() for s in secret)
        shown.append("***" if hide else f"{name}=***" if is_secret and equals else word)
        hide = is_secret and not equals
    return " ".join(shown)


def _gpus() -> list[str]:
    out = _run("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
    return out.splitlines() if out else []


def _git(root: Path, *arguments: str) -> str | None:
    return _run("git", "-C", str(root), *arguments)


def _run(*words: str) -> str | None:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
