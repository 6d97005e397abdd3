"""lm-eval's generation settings as ours: every option is honoured, or refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.engines.base import Sampling
from harness.errors import ConfigError, nearest

if TYPE_CHECKING:  # it needs transformers, and listing tasks does not
    from harness.models.tokenizer import Tokenizer

DEFAULT_MAX_TOKENS = 256
"""lm-eval's own default where a task names no limit."""

LIMITS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
"""lm-eval's words for the most new tokens, the first one given counting."""

DRAWING = ("top_k", "top_p", "min_p", "seed")
"""Options that matter where tokens are drawn; greedy decoding has one answer whatever they say."""

KNOWN = frozenset({"until", "do_sample", "temperature", "repetition_penalty", *LIMITS, *DRAWING})

SINGLE = ("num_beams", "num_return_sequences")
"""Options that say nothing where they are 1."""


def max_tokens_of(kwargs: Mapping[str, Any]) -> int:
    """Most new tokens that generation settings allow."""
    given = (kwargs[name] for name in LIMITS if kwargs.get(name) is not None)
    return int(next(given, DEFAULT_MAX_TOKENS))


def read_sampling(kwargs: Mapping[str, Any], task: str) -> Sampling:
    """Read generation settings as lm-eval means them.

    ``do_sample`` decides; where it is not given, a temperature above 0 does. Drawing without a
    temperature has 1, transformers' own.

    Parameters
    ----------
    task
        Who asks, for messages.

    Raises
    ------
    ConfigError
        An option that the engines do not honour, or a value out of range.
    """
    for name, value in kwargs.items():
        if name not in KNOWN and not (name in SINGLE and value == 1):
            raise ConfigError(
                f"{task}: generation_kwargs: {name} {value!r} is not honoured by any engine here"
                f"{nearest(name, KNOWN)}"
            )
    until = kwargs.get("until") or []
    stops = [until] if isinstance(until, str) else list(until)
    drawing: dict[str, Any] = {}
    if kwargs.get("do_sample", float(kwargs.get("temperature") or 0) > 0):
        drawing = {name: kwargs[name] for name in DRAWING if kwargs.get(name) is not None}
        if drawing.get("top_k") in {0, -1}:  # both are "all tokens" in the usual engines
            del drawing["top_k"]
        drawing["temperature"] = float(kwargs.get("temperature", 1.0))
    try:
        return Sampling(
            max_tokens=max_tokens_of(kwargs),
            stop=tuple(stop for stop in stops if stop),
            repetition_penalty=float(kwargs.get("repetition_penalty") or 1.0),
            **drawing,
        )
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{task}: generation_kwargs: {error}") from error


def ending_at(sampling: Sampling, text: str, tokenizer: Tokenizer) -> Sampling:
    """End answers at the last token of a text too, and begin none with an end token."""
    if not text:
        return sampling
    return replace(sampling, end_tokens=(tokenizer.encode(text)[-1],), min_tokens=1)


def sampling_of(lm_task: Any, sample_seed: int) -> Sampling | None:
    """Read a task's generation settings; None for log-likelihood tasks.

    Parameters
    ----------
    sample_seed
        Seeds what is drawn, where the task draws and names no seed itself.
    """
    if lm_task.OUTPUT_TYPE != "generate_until":
        return None
    found = read_sampling(lm_task.config.generation_kwargs or {}, lm_task.config.task)
    return replace(found, seed=sample_seed) if found.draws and found.seed is None else found
