"""What travels to a worker in ``SamplingParams.extra_args``, and the cache salt beside it."""

from __future__ import annotations

import base64
import hashlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.engines.scorer import ScoringConfig

POSITIONS_KEY = "specprefill"
ROWS_KEY = "specprefill_rows"


@dataclass(frozen=True)
class Positions:
    """Where a request's tokens stand.

    Attributes
    ----------
    values
        int32 [K]: original positions of the K prompt tokens, strictly increasing.
    resume
        Position of the first decoded token: M, the length of the original prompt.
    """

    values: npt.NDArray[np.int32]
    resume: int


def encode_positions(positions: Sequence[int], resume: int) -> dict[str, Any]:
    """Value of ``extra_args["specprefill"]``.

    The positions are base64 text: vLLM walks a list in ``extra_args`` element by element.
    """
    raw = np.asarray(positions, dtype="<i4").tobytes()
    return {"pos": base64.b64encode(raw).decode("ascii"), "len": resume}


def decode_positions(extra_args: Mapping[str, Any] | None) -> Positions | None:
    """Read what :func:`encode_positions` wrote; None for a request without positions."""
    entry = (extra_args or {}).get(POSITIONS_KEY)
    if entry is None:
        return None
    values = np.frombuffer(base64.b64decode(entry["pos"]), dtype="<i4")
    return Positions(values, int(entry["len"]))


@dataclass(frozen=True)
class WindowPart:
    """Which window of which long prompt a request is; the rest makes the plan over again.

    Attributes
    ----------
    prompt
        Name under which the worker collects the prompt's windows.
    number
        Index of the window in the plan.
    length
        Tokens of the whole prompt.
    """

    prompt: str
    number: int
    length: int
    max_positions: int
    has_bos: bool
    tail_tokens: int | None


@dataclass(frozen=True)
class Rows:
    """Which tokens of a speculator's request are query rows.

    Attributes
    ----------
    first
        Index of row 0's token in the request: M − 1.
    count
        N, the number of rows wanted; those past the prompt are decoded tokens.
    scoring
        The scoring configuration, as a mapping.
    """

    first: int
    count: int
    scoring: Mapping[str, Any]
    window: WindowPart | None = None

    @property
    def keys(self) -> int:
        """M, the number of keys scored, from the request's start."""
        return self.first + 1

    def config(self) -> ScoringConfig:
        """The scoring configuration."""
        return ScoringConfig(**self.scoring)

    def encode(self) -> dict[str, Any]:
        """Value of ``extra_args["specprefill_rows"]``."""
        return asdict(self)


def decode_rows(extra_args: Mapping[str, Any] | None) -> Rows | None:
    """Read ``extra_args["specprefill_rows"]``; None for a request that is not scored."""
    entry = (extra_args or {}).get(ROWS_KEY)
    if entry is None:
        return None
    window = entry["window"]
    part = None if window is None else WindowPart(**window)
    return Rows(entry["first"], entry["count"], entry["scoring"], part)


def positions_salt(positions: Sequence[int]) -> str:
    """Cache salt of a sparse request.

    vLLM's prefix cache hashes token ids, not positions: without a salt a block of one request
    would serve another whose same tokens stand elsewhere.
    """
    raw = np.asarray(positions, dtype="<i4").tobytes()
    return "specprefill-" + hashlib.sha256(raw).hexdigest()[:32]


def unique_salt() -> str:
    """Cache salt that no other request has: the request finds a cold cache."""
    return "cold-" + uuid.uuid4().hex
