"""What a CPU run of vLLM wants from its surroundings: threads bound, libraries preloaded.

Found by measuring (docs/performance.md): bound OpenMP threads with Intel's OpenMP and tcmalloc
preloaded prefill several times faster than a bare start, and threads that spin while they wait
slow down the other engine that shares the cores.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

from harness.engines.vllm.flavour import installed

_LIBRARY_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
)
_OPENMP = ("libiomp", "libgomp", "libomp")
_CPU_FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_tile", "amx_bf16")


def prepare_environment(*, logging: bool = True) -> None:
    """Set the variables that vLLM and OpenMP read at start; call it before importing vLLM.

    Values that the user has set are kept. Child processes inherit all of them.

    Parameters
    ----------
    logging
        False leaves vLLM's logging as it is: where the user has started vLLM itself.
    """
    for name, value in _defaults().items():
        if logging or not name.startswith("VLLM_LOGGING"):
            os.environ.setdefault(name, value)
    if sys.platform == "linux":
        _preload()


def _defaults() -> dict[str, str]:
    level = "INFO" if debugging() else "ERROR"
    common = {
        "VLLM_LOGGING_LEVEL": level,
        # vLLM logs to stdout, which belongs to the command's own output.
        "VLLM_LOGGING_STREAM": "ext://sys.stderr",
        # Nothing is sent anywhere during a measurement.
        "VLLM_NO_USAGE_STATS": "1",
        # The hooks are written for the V1 runner (docs/adr/0010).
        "VLLM_USE_V2_MODEL_RUNNER": "0",
        "TOKENIZERS_PARALLELISM": "false",
        # No process outlives its owner (harness.engines.vllm.following).
        "SPECPREFILL_FOLLOW_PARENT": "1",
    }
    found = installed()
    return common if found is not None and found.device != "cpu" else common | _on_cpu()


def _on_cpu() -> dict[str, str]:
    return {
        "VLLM_CPU_OMP_THREADS_BIND": thread_binding(),
        # Two engines share the cores: neither a waiting thread …
        "OMP_WAIT_POLICY": "passive",
        # … nor a waiting process may spin (harness.engines.vllm.waiting).
        "SPECPREFILL_WAIT_POLLING_S": "0.001",
    }


def debugging() -> bool:
    """Whether ``HARNESS_DEBUG`` asks for the libraries' own logs and for tracebacks."""
    return os.environ.get("HARNESS_DEBUG", "") not in ("", "0")


def usable_cores() -> list[int]:
    """CPU ids this process may use, one for each physical core."""
    if not hasattr(os, "sched_getaffinity"):
        return list(range(os.cpu_count() or 1))
    chosen: dict[str, int] = {}
    for cpu in sorted(os.sched_getaffinity(0)):
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        core = siblings.read_text().strip() if siblings.is_file() else str(cpu)
        chosen.setdefault(core, cpu)
    return list(chosen.values())


def thread_binding(ranks: int = 1) -> str:
    """Value of ``VLLM_CPU_OMP_THREADS_BIND``: the cores of each rank, ranks split by ``|``."""
    cores = usable_cores()
    if ranks > len(cores):  # more ranks than cores: they share all of them
        shares = [cores] * ranks
    else:
        shares = [cores[rank::ranks] for rank in range(ranks)]
    return "|".join(",".join(str(core) for core in share) for share in shares)


def _preload() -> None:
    loaded = os.environ.get("LD_PRELOAD", "")
    wanted = []
    if "tcmalloc" not in loaded:
        wanted.append(find_tcmalloc())
    if not any(name in loaded for name in _OPENMP):
        wanted.append(find_intel_openmp())
    paths = [str(path) for path in wanted if path is not None]
    if paths:
        os.environ["LD_PRELOAD"] = ":".join([*paths, *filter(None, [loaded])])


def find_intel_openmp() -> Path | None:
    """``libiomp5.so`` of the ``intel-openmp`` package or of the system; None where absent."""
    return _find("libiomp5.so", (Path(sys.prefix) / "lib", *map(Path, _LIBRARY_FOLDERS)))


def find_tcmalloc() -> Path | None:
    """The tcmalloc that vLLM bundles or the system has; None where absent."""
    bundled = [Path(entry) / "vllm" / "libs" for entry in sys.path if entry]
    folders = (*bundled, Path(sys.prefix) / "lib", *map(Path, _LIBRARY_FOLDERS))
    return _find("libtcmalloc_minimal.so*", folders) or _find("libtcmalloc.so*", folders)


def _find(pattern: str, folders: tuple[Path, ...]) -> Path | None:
    for folder in folders:
        if folder.is_dir() and (found := sorted(folder.glob(pattern))):
            return found[0]
    return None


def report() -> dict[str, Any]:
    """Facts for ``harness doctor``: cores, instruction sets, binding, preloads, advice."""
    openmp, tcmalloc = find_intel_openmp(), find_tcmalloc()
    missing: dict[str, str] = {}
    if openmp is None and _is_x86():
        missing["libiomp5"] = "pip install intel-openmp"
    if tcmalloc is None:
        missing["tcmalloc"] = "apt-get install libtcmalloc-minimal4"
    return {
        "cores": usable_cores(),
        "flags": sorted(_flags() & set(_CPU_FLAGS)),
        "binding": os.environ.get("VLLM_CPU_OMP_THREADS_BIND") or thread_binding(),
        "wait_policy": os.environ.get("OMP_WAIT_POLICY", "passive"),
        "preload": {
            "libiomp5": None if openmp is None else str(openmp),
            "tcmalloc": None if tcmalloc is None else str(tcmalloc),
        },
        "missing": missing,
    }


def _is_x86() -> bool:
    return os.uname().machine in ("x86_64", "i686") if hasattr(os, "uname") else True


def _flags() -> set[str]:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return set()
    match = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", text, re.MULTILINE)
    return set(match[1].split()) if match else set()
