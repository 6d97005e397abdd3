"""What a user may say to an engine: every argument of vLLM's ``EngineArgs``, by name and type.

Names and types are read from vLLM's source text, as :mod:`harness.engines.vllm.contract` does:
importing vLLM takes longer than planning a run. A structured value (``hf_overrides``) stays JSON
text on its way, so that engine specifications can be compared and stored.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from typing import Any

from harness.engines.vllm import contract, flavour
from harness.errors import ConfigError, nearest

ALIASES = {
    "tensor_parallel_size": "tensor_parallel",
    "pipeline_parallel_size": "pipeline_parallel",
    "enable_prefix_caching": "prefix_caching",
    "enable_chunked_prefill": "chunked_prefill",
}
"""vLLM's name → ours, where both are understood."""

_OURS = {
    "kv_tokens": "int",
    "tensor_parallel": "int",
    "pipeline_parallel": "int",
    "prefix_caching": "bool",
    "chunked_prefill": "bool",
}
_DRAFTER = "speculative decoding cannot be combined with SpecPrefill: its drafter reads positions"
_REFUSED = {
    "model": "--target and --speculator name the models",
    "model_weights": "--target and --speculator name the models",
    "dtype": "--dtype says it",
    "max_model_len": "it follows from the prompts' lengths",
    "worker_cls": "SpecPrefill needs its own workers",
    "enforce_eager": "the hooks run in Python at every step, so that engines are always eager",
    "async_scheduling": "the hooks need each step's tokens before the next",
    "seed": "--sample-seed says it",
    "runner": "engines generate",
    "convert": "engines generate",
    "skip_tokenizer_init": "stop strings need the tokenizer",
    "disable_log_stats": "it is the harness's own",
    "use_tqdm_on_load": "it is the harness's own",
    "data_parallel_size": "cells are spread by --executor ray",
    **dict.fromkeys(("speculative_config", "spec_method", "spec_model", "spec_tokens"), _DRAFTER),
}
_PLAIN = {"int": int, "float": float}
_STRUCTURED = re.compile(r"dict|list|set|Mapping|Overrides|Config\b")


def known_types() -> dict[str, str]:
    """Every name that is understood, and the annotation of its value."""
    found = dict(_OURS)
    if flavour.installed() is not None:
        owner = contract.class_of("engine/arg_utils.py", "EngineArgs")
        for item in owner.body if owner is not None else ():
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                found.setdefault(item.target.id, ast.unparse(item.annotation).strip("'"))
    return {name: kind for name, kind in found.items() if not name.startswith("_")}


def split(text: str) -> dict[str, str]:
    """Split ``a=1,b={"c": 2, "d": 3}`` at the commas outside brackets and quotes.

    Raises
    ------
    ConfigError
        A part is no ``name=value``, or a name stands twice.

    >>> split('max_num_seqs=4,hf_overrides={"a": 1, "b": [2, 3]}')["hf_overrides"]
    '{"a": 1, "b": [2, 3]}'
    """
    found: dict[str, str] = {}
    for part in _parts(text):
        name, given, value = part.partition("=")
        name = name.strip().replace("-", "_")
        if not given or not name:
            raise ConfigError(f"{part.strip()!r} is no name=value: write max_num_seqs=4,…")
        if name in found:
            raise ConfigError(f"{name} stands twice")
        found[name] = value.strip()
    return found


def _parts(text: str) -> list[str]:
    parts, depth, quote = [""], 0, ""
    for sign in text:
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        else:
            depth += (sign in "[{(") - (sign in "]})")
        if sign == "," and not quote and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return [part for part in parts if part.strip()]


def read_arguments(given: str | Mapping[str, Any], role: str = "target") -> dict[str, Any]:
    """Check arguments of an engine, and give each the type that vLLM says it has.

    Parameters
    ----------
    given
        ``name=value,…`` or a mapping, whose values may be text.
    role
        ``target`` or ``speculator``.

    Returns
    -------
    dict
        By our names (:data:`ALIASES`), sorted; structured values as canonical JSON text.

    Raises
    ------
    ConfigError
        A name is unknown (with the nearest one), is SpecPrefill's own, or has a bad value.
    """
    pairs = split(given) if isinstance(given, str) else dict(given)
    types = known_types()
    found: dict[str, Any] = {}
    for name, value in pairs.items():
        if name in _REFUSED and not _is_own_value(name, value):
            raise ConfigError(f"{name} cannot be set for the {role}: {_REFUSED[name]}")
        if name not in types:
            raise ConfigError(f"vLLM's engine has no argument {name!r}{nearest(name, types)}")
        if name in _REFUSED:
            continue  # what it is anyway
        known = ALIASES.get(name, name)
        if known in found:
            raise ConfigError(f"{name} and {known} say the same: give one")
        found[known] = _typed(name, types[name], value)
    if role == "speculator" and found.get("pipeline_parallel", 1) != 1:
        raise ConfigError("pipeline_parallel cannot be set for the speculator: use tensor_parallel")
    return dict(sorted(found.items()))


def _is_own_value(name: str, value: Any) -> bool:
    """Whether a value asks for what SpecPrefill sets anyway."""
    own = {"enforce_eager": "true", "async_scheduling": "false", "data_parallel_size": "1"}
    return str(value).strip().lower() == own.get(name)


def _typed(name: str, kind: str, value: Any) -> Any:
    """A value as the annotation ``kind`` has it.

    Raises
    ------
    ConfigError
        It is no such value.
    """
    words = set(re.findall(r"\w+", kind))
    if value is None or (isinstance(value, str) and value.lower() == "none"):
        if "None" in words:
            return None
    elif isinstance(value, str):
        found = _from_text(kind, words, value)
        if found is not None:
            return found
    elif _fits(kind, words, value):
        structured = isinstance(value, (Mapping, list, tuple, set))
        return _canonical(value) if structured else value
    raise ConfigError(f"{name} takes {kind}, not {value!r}")


def _fits(kind: str, words: set[str], value: Any) -> bool:
    """Whether a value from YAML or Python has the annotated type."""
    if isinstance(value, bool):
        return "bool" in words
    if isinstance(value, int):
        return bool(words & {"int", "float"})
    if isinstance(value, float):
        return "float" in words
    return isinstance(value, (Mapping, list, tuple, set)) and bool(_STRUCTURED.search(kind))


def _from_text(kind: str, words: set[str], text: str) -> Any:
    """A value from a command line; None where it is none of the annotated type."""
    if "bool" in words and text.lower() in ("true", "false"):
        return text.lower() == "true"
    for name, make in _PLAIN.items():
        if name in words and not _STRUCTURED.search(kind):
            try:
                return make(text)
            except ValueError:
                continue
    if _STRUCTURED.search(kind) and text[:1] in "[{":
        try:
            return _canonical(json.loads(text))
        except json.JSONDecodeError:
            return None
    only_numbers = words <= {"int", "float", "bool", "None"}
    return None if only_numbers or not text else text


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=list)


def for_vllm(name: str, value: Any) -> Any:
    """A value as ``EngineArgs`` takes it: structured ones are no text any more."""
    structured = isinstance(value, str) and value[:1] in ("{", "[")
    return json.loads(value) if structured and name != "model" else value
