"""What SpecPrefill relies on inside vLLM, checked before an engine starts.

The hooks override methods that vLLM does not promise to keep. A release that moves one of them is
told here, in one line, from vLLM's source text: nothing of it is imported, and no process has to
die for it. What the text cannot show (that positions are edited after attention metadata is
built) is pinned by tests/contract.
"""

from __future__ import annotations

import ast
import inspect
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from harness.engines.vllm import flavour
from harness.errors import ConfigError

_V2 = "VLLM_USE_V2_MODEL_RUNNER"


@dataclass(frozen=True)
class Method:
    """A method that is overridden or called.

    Attributes
    ----------
    file
        Path below ``vllm/``.
    parameters
        The first ones, by name.
    device
        ``cpu`` or ``cuda`` where only that one needs it.
    """

    file: str
    owner: str
    name: str
    parameters: tuple[str, ...] = ()
    device: str | None = None


@dataclass(frozen=True)
class Fields:
    """Names in the body of a class (fields, properties) that are read or written."""

    file: str
    owner: str
    names: tuple[str, ...]
    device: str | None = None


_RUNNER = "v1/worker/gpu_model_runner.py"
_SCHEDULED = "v1/core/sched/output.py"

NEEDED: tuple[Method | Fields, ...] = (
    Method(_RUNNER, "GPUModelRunner", "_update_states", ("self", "scheduler_output")),
    Method(
        _RUNNER,
        "GPUModelRunner",
        "_preprocess",
        ("self", "scheduler_output", "num_input_tokens"),
    ),
    Method(_RUNNER, "GPUModelRunner", "get_model", ("self",)),
    Method("v1/worker/cpu_worker.py", "CPUWorker", "init_device", ("self",), "cpu"),
    Method("v1/worker/gpu_worker.py", "Worker", "_make_model_runner", ("self",), "cuda"),
    Fields(
        _SCHEDULED,
        "SchedulerOutput",
        ("scheduled_new_reqs", "finished_req_ids", "preempted_req_ids", "num_scheduled_tokens"),
    ),
    Fields(_SCHEDULED, "NewRequestData", ("req_id", "prompt_token_ids", "sampling_params")),
    Fields(
        "v1/worker/gpu_input_batch.py",
        "CachedRequestState",
        ("block_ids", "output_token_ids", "sampling_params"),
    ),
    Method("v1/worker/gpu_input_batch.py", "InputBatch", "refresh_metadata", ("self",)),
    Fields("v1/sample/metadata.py", "SamplingMetadata", ("prompt_token_ids",)),
    Fields("v1/kv_cache_interface.py", "KVCacheConfig", ("num_blocks", "kv_cache_groups")),
    Fields(
        "sampling_params.py",
        "SamplingParams",
        ("extra_args", "stop_token_ids", "eos_token_id", "skip_reading_prefix_cache"),
    ),
    Method(
        "v1/engine/llm_engine.py",
        "LLMEngine",
        "add_request",
        ("self", "request_id", "prompt", "params"),
    ),
    Method(
        "v1/engine/llm_engine.py",
        "LLMEngine",
        "abort_request",
        ("self", "request_ids", "internal"),
    ),
    Method(
        "v1/attention/backends/cpu_attn.py",
        "CPUAttentionBackendImpl",
        "forward",
        ("self", "layer", "query"),
        "cpu",
    ),
    Method(
        "v1/attention/backends/cpu_attn.py",
        "CPUAttentionBackendImpl",
        "do_kv_cache_update",
        ("self", "layer", "key", "value", "kv_cache", "slot_mapping"),
        "cpu",
    ),
)


LLM_NEEDED: dict[str, tuple[str, ...]] = {
    "__init__": ("self", "model"),
    "_render_and_add_requests": ("self", "prompts", "params", "lora_requests", "priorities"),
    "_run_engine": ("self", "output_type"),
    "beam_search": ("self", "prompts", "params"),
}
"""Methods of ``vllm.LLM`` by which a plain script's requests pass, with their first parameters."""


def check() -> None:
    """Refuse a vLLM, or a runner of it, that the hooks are not written for.

    Raises
    ------
    ConfigError
        vLLM is not installed, its V2 model runner is asked for, or something in :data:`NEEDED`
        is not as it was: what, and what to do, in one line.
    """
    found = flavour.require()
    refuse_v2(os.environ.get(_V2, "0").strip().lower() not in ("", "0", "false"))
    fault = next(faults(found.device), None)
    if fault is not None:
        raise ConfigError(
            f"{found.distribution} {found.version} is not the vLLM that SpecPrefill is written "
            f"for: {fault}; install {flavour.tested_text(found.distribution)} (docs/models.md)"
        )


def refuse_v2(asked: bool) -> None:
    """Refuse vLLM's V2 model runner, where positions need another hook (docs/adr/0010).

    Called with the environment before a start, and by the workers with what vLLM has made of it.

    Raises
    ------
    ConfigError
        It is ``asked`` for.
    """
    if asked:
        raise ConfigError(
            f"SpecPrefill is written for vLLM's V1 model runner: unset {_V2}, or set it to 0"
        )


def check_llm(llm: type[Any]) -> None:
    """Refuse a ``vllm.LLM`` whose methods are not those that ``enable_prefill_spec`` wraps.

    Raises
    ------
    ConfigError
        Which, in one line.
    """
    for name, parameters in LLM_NEEDED.items():
        method = getattr(llm, name, None)
        found = [] if method is None else list(inspect.signature(method).parameters)
        if found[: len(parameters)] != list(parameters):
            raise ConfigError(
                f"this vLLM's LLM.{name} is not the one that enable_prefill_spec wraps: install "
                f"{flavour.tested_text(flavour.require().distribution)} (docs/models.md)"
            )


@cache
def _source() -> Path:
    spec = find_spec("vllm")
    assert spec is not None, "the caller has looked"
    assert spec.submodule_search_locations is not None, "vllm is a package"
    return Path(next(iter(spec.submodule_search_locations)))


def faults(device: str, source: Path | None = None) -> Iterator[str]:
    """Yield what a vLLM does not have as :data:`NEEDED` says, a clause each.

    Parameters
    ----------
    device
        ``cpu`` or ``cuda``.
    source
        Folder of the package ``vllm``; the installed one where left out.
    """
    source = _source() if source is None else source
    for needed in NEEDED:
        if needed.device in (None, device):
            fault = _fault(needed, _class(source / needed.file, needed.owner))
            if fault is not None:
                yield fault
    positions = _class(source / _RUNNER, "GPUModelRunner")
    if positions is not None and not _returns_positions_third(positions):
        yield "GPUModelRunner._preprocess does not return positions third"


def class_of(file: str, name: str) -> ast.ClassDef | None:
    """A class of the installed vLLM as it stands in its text; None where it is not there."""
    return _class(_source() / file, name)


def _fault(needed: Method | Fields, owner: ast.ClassDef | None) -> str | None:
    where = f"vllm/{needed.file} has no"
    if owner is None:
        return f"{where} class {needed.owner}"
    if isinstance(needed, Fields):
        missing = sorted(set(needed.names) - set(_names(owner)))
        return f"{where} {needed.owner}.{missing[0]}" if missing else None
    function = _function(owner, needed.name)
    if function is None:
        return f"{where} {needed.owner}.{needed.name}"
    found = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
    if tuple(found[: len(needed.parameters)]) != needed.parameters:
        return f"{needed.owner}.{needed.name} takes other parameters ({', '.join(found)})"
    return None


@cache
def _tree(path: Path) -> ast.Module | None:
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    except OSError:
        return None


def _class(path: Path, name: str) -> ast.ClassDef | None:
    tree = _tree(path)
    classes = tree.body if tree is not None else []
    return next((c for c in classes if isinstance(c, ast.ClassDef) and c.name == name), None)


def _function(owner: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    return next((f for f in owner.body if isinstance(f, ast.FunctionDef) and f.name == name), None)


def _names(owner: ast.ClassDef) -> Iterator[str]:
    """Names that a class body defines: annotated fields, assignments, methods and properties."""
    for item in owner.body:
        if isinstance(item, ast.FunctionDef):
            yield item.name
        elif isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            yield item.target.id
        elif isinstance(item, ast.Assign):
            yield from (target.id for target in item.targets if isinstance(target, ast.Name))


def _returns_positions_third(runner: ast.ClassDef) -> bool:
    function = _function(runner, "_preprocess")
    returns = [n for n in ast.walk(function) if isinstance(n, ast.Return)] if function else []
    if not returns or not isinstance(returns[-1].value, ast.Tuple):
        return False
    third = returns[-1].value.elts[2:3]
    return [n.id for n in third if isinstance(n, ast.Name)] == ["positions"]
