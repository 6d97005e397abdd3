"""``harness doctor``: say whether this machine is ready, and what mends what is missing."""

from __future__ import annotations

import importlib.util
import json as json_module
import platform
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Annotated

import typer

from harness.engines.vllm import cpu, flavour
from harness.paths import cache_dir, data_dir
from harness.run import provenance

app = typer.Typer(add_completion=False, rich_markup_mode=None)

MARKS = {"ok": "✓", "warn": "!", "missing": "✗"}


@app.command(epilog="Example:  harness doctor --json")
def doctor(
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, nothing else.")
    ] = False,
) -> int:
    """Say what this machine has, what is missing, and the command that mends it.

    Exits 0 where a run can start, 2 where something it needs is missing.
    """
    findings = examine()
    if json:
        print(json_module.dumps(to_json(findings), ensure_ascii=False))
    else:
        for finding in findings:
            print(f"{MARKS[finding.level]} {finding.what}: {finding.text}")
            if finding.mend:
                print(f"    → {finding.mend}")
    return 0 if to_json(findings)["ok"] else 2


SPARE_GIB = 5.0
"""Free disk under which preparing models may fail."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. ``level`` is ok, warn or missing; ``mend`` a command."""

    what: str
    level: str
    text: str
    mend: str | None = None


def examine() -> list[Finding]:
    """Look at everything, quickly and without importing an engine."""
    checks: tuple[Callable[[], list[Finding]], ...] = (
        _python,
        _processor,
        _threads,
        _vllm,
        _optional,
        _models,
        _data,
        _disk,
    )
    return [finding for check in checks for finding in check()]


def to_json(findings: list[Finding]) -> dict[str, object]:
    """``{"ok": …, "findings": […]}``; ``ok`` is whether nothing is missing."""
    ok = all(finding.level != "missing" for finding in findings)
    return {"ok": ok, "findings": [asdict(finding) for finding in findings]}


def _python() -> list[Finding]:
    return [Finding("python", "ok", f"{platform.python_version()} on {platform.platform()}")]


def _processor() -> list[Finding]:
    facts = provenance.machine()
    gpus = facts["gpus"]
    flags = set(cpu.report()["flags"])
    wanted = {"avx512f": "AVX-512", "avx512_bf16": "AVX-512 BF16", "amx_bf16": "AMX BF16"}
    have = [name for flag, name in wanted.items() if flag in flags]
    lack = [name for flag, name in wanted.items() if flag not in flags]
    text = f"{facts['cpu']}, {facts['cpus']} usable cores, {facts['memory_gib']} GiB; " + (
        f"has {', '.join(have) or 'none of the wide vector units'}"
        + (f", lacks {', '.join(lack)}" if lack else "")
    )
    found = [Finding("cpu", "ok" if "avx512f" in flags or gpus else "warn", text)]
    found.append(Finding("gpu", "ok", ", ".join(gpus) if gpus else "none found: vLLM runs on CPU"))
    return found


def _threads() -> list[Finding]:
    facts = cpu.report()
    waiting = facts["wait_policy"]
    found = [Finding("threads", "ok", f"bound to cores {facts['binding']}; waiting is {waiting}")]
    for name, path in facts["preload"].items():
        if path is not None:
            found.append(Finding(name, "ok", f"preloaded for engines from {path}"))
        elif name in facts["missing"]:
            text = "not found: prefill on CPU runs at a fraction of its speed"
            found.append(Finding(name, "warn", text, facts["missing"][name]))
    return found


def _vllm() -> list[Finding]:
    found = flavour.installed()
    if found is None:
        return [Finding("vllm", "missing", "not installed", "make setup")]
    mark = "tested" if found.tested else "untested by this project (docs/models.md)"
    text = f"{found.distribution} {found.version}, on {found.device}: {mark}"
    return [Finding("vllm", "ok" if found.tested else "warn", text)]


def _optional() -> list[Finding]:
    """Packages behind extras; a method without its package is ``unsupported``, with the reason."""
    extras = {
        "llmlingua": ("llmlingua", "LLMLingua arms"),
        "sentence_transformers": ("dense", "the dense retriever"),
        "ray": ("ray", "running a plan on several machines"),
    }
    found = []
    for module, (extra, use) in extras.items():
        if importlib.util.find_spec(module) is None:
            mend = f"pip install 'specprefill-harness[{extra}]'"
            found.append(Finding(extra, "warn", f"not installed; needed for {use}", mend))
        else:
            found.append(Finding(extra, "ok", f"{module} {_version(module)}, for {use}"))
    return found


def _version(module: str) -> str:
    try:
        return metadata.version(module.replace("_", "-"))
    except metadata.PackageNotFoundError:
        return "(version unknown)"


def _models() -> list[Finding]:
    from harness.models.presets import EMBEDDED

    found = []
    for name in EMBEDDED:
        if (cache_dir() / "models" / name / "config.json").is_file():
            found.append(Finding("model", "ok", f"{name} is prepared"))
        else:
            text = f"{name} is not prepared yet (the first run does it)"
            found.append(Finding("model", "warn", text, "harness models prepare"))
    return found


def _data() -> list[Finding]:
    from harness.tasks.catalogue import list_tasks

    tasks = list_tasks()
    missing = sorted({name for task in tasks for name in task.missing})
    ready = sum(task.ready for task in tasks)
    found = [Finding("data", "ok", f"{ready} of {len(tasks)} tasks are ready, in {data_dir()}")]
    if missing:
        names = ", ".join(missing[:4]) + (", …" if len(missing) > 4 else "")
        found.append(
            Finding("data", "warn", f"not here: {names}", f"harness data pull {missing[0]}")
        )
    return found


def _disk() -> list[Finding]:
    folder = cache_dir()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free / 2**30
    level = "ok" if free > SPARE_GIB else "warn"
    return [Finding("disk", level, f"{free:.1f} GiB free for {cache_dir()}")]
