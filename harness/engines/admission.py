"""What every engine checks before it takes a request, the fake one included.

Positions are the *original* ones: an engine prefills fewer tokens than the prompt had, and its own
length check would see those only (ALGORITHM.md, Prefill).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from harness.errors import ConfigError
from harness.schema.prompts import PreparedPair, PreparedPrompt

AFTER_PAIR = 1
"""Tokens decoded after a scored continuation: vLLM has no request without one."""


def admit(prompt: PreparedPrompt, new_tokens: int, limit: int) -> int:
    """Check a prompt and its new tokens against the target's range.

    Parameters
    ----------
    new_tokens
        Tokens that may follow the prompt.
    limit
        Highest position + 1 that a request may reach.

    Returns
    -------
    int
        The position where decoding goes on.

    Raises
    ------
    ConfigError
        There is nothing to prefill, positions do not belong to the tokens, or the range is
        exceeded.
    """
    kept, positions = len(prompt.token_ids), prompt.positions
    resume = kept if positions is None else prompt.original_length
    fault = None if kept else "there are no tokens to prefill"
    if positions is not None:
        fault = position_fault(positions, kept, resume)
    if fault is not None:
        raise ConfigError(f"{prompt.example_id}: {fault}")
    if resume + new_tokens > limit:
        raise ConfigError(
            f"{prompt.example_id}: {resume} prompt tokens and {new_tokens} new ones exceed the "
            f"target's {limit} positions: shorten the prompt or generate less"
        )
    return resume


def admit_pair(pair: PreparedPair, limit: int) -> int:
    """Check a context and its continuation, as :func:`admit` does.

    Raises
    ------
    ConfigError
        The continuation has no tokens, so that nothing could be scored; or as for a prompt.
    """
    if not pair.continuation:
        raise ConfigError(f"{pair.context.example_id}: the continuation has no tokens to score")
    return admit(pair.context, len(pair.continuation) + AFTER_PAIR, limit)


def position_fault(
    positions: Sequence[int] | npt.NDArray[np.int32],
    tokens: int,
    resume: int,
    limit: int | None = None,
) -> str | None:
    """Say why ``tokens`` prompt tokens cannot stand at ``positions``; None where they can.

    They are strictly increasing and inside the original prompt of ``resume`` tokens, which lies
    inside the model's ``limit`` positions.
    """
    values = np.asarray(positions)
    if len(values) != tokens:
        return f"{len(values)} positions for {tokens} tokens"
    if not tokens:
        return "there are no tokens to prefill"
    if (np.diff(values) <= 0).any():
        return "positions are not strictly increasing"
    if values[0] < 0 or values[-1] >= resume:
        return f"positions {values[0]}…{values[-1]} lie outside the prompt of {resume} tokens"
    if limit is not None and resume > limit:
        return f"{resume} prompt tokens exceed the model's {limit} positions"
    return None
