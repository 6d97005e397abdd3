"""What travels to a worker in ``SamplingParams.extra_args``, and the cache salt beside it.

Whoever sends requests to a server may put anything there. So what is read is checked against the
request it came with, whoever wrote it: once where a request is admitted, where a fault is an
error, and again in the workers, which leave a faulty entry alone rather than end the engine.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict, Field, StrictBool, StrictStr, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked

from harness.engines.admission import position_fault
from harness.engines.scorer import ScoringConfig
from harness.engines.vllm.attention import PATHS
from harness.errors import ConfigError

POSITIONS_KEY = "specprefill"
ROWS_KEY = "specprefill_rows"
_OURS = frozenset({POSITIONS_KEY, ROWS_KEY, *PATHS})
_FIELDS = {"pos", "len", "dropped"}
_WHOLE = ConfigDict(extra="forbid")
_COUNT = Field(strict=True, ge=1, le=2**26)  # tokens; no prompt is longer


@dataclass(frozen=True)
class Positions:
    """Where a request's tokens stand.

    Attributes
    ----------
    values
        int32 [K]: original positions of the K prompt tokens, strictly increasing.
    resume
        Position of the first decoded token: M, the length of the original prompt.
    dropped
        int32, increasing: token ids of the original prompt that no kept token has. A penalty on
        what the prompt repeats needs them.
    """

    values: npt.NDArray[np.int32]
    resume: int
    dropped: npt.NDArray[np.int32]


def encode_positions(
    positions: Sequence[int], resume: int, dropped: Iterable[int] = ()
) -> dict[str, Any]:
    """Value of ``extra_args["specprefill"]``; the parameters are :class:`Positions`' fields.

    Numbers travel as base64 text: vLLM walks a list in ``extra_args`` element by element.
    """
    entry = {"pos": _pack(positions), "len": resume}
    ids = sorted(dropped)
    return {**entry, "dropped": _pack(ids)} if ids else entry


def _pack(numbers: Sequence[int]) -> str:
    return base64.b64encode(np.asarray(numbers, dtype="<i4").tobytes()).decode("ascii")


def _unpack(entry: Mapping[str, Any], name: str) -> npt.NDArray[np.int32]:
    """int32 numbers of a field; empty where it is left out."""
    text = entry.get(name, "")
    if not isinstance(text, str):
        raise _foreign(POSITIONS_KEY, f"{name} is not text")
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:  # ValueError: text that is not ASCII
        raise _foreign(POSITIONS_KEY, f"{name} is not base64") from error
    if len(raw) % 4:
        raise _foreign(POSITIONS_KEY, f"{name} does not hold whole 32-bit numbers")
    return np.frombuffer(raw, dtype="<i4")


def decode_positions(
    extra_args: Mapping[str, Any] | None, tokens: int, limit: int | None = None
) -> Positions | None:
    """Read what :func:`encode_positions` wrote; None for a request without positions.

    Parameters
    ----------
    tokens
        K, the number of prompt tokens that the request has.
    limit
        Positions that the model has, where the caller knows it.

    Raises
    ------
    ConfigError
        The entry is no such thing, or its positions are not those of K tokens in order.
    """
    entry = _entry(extra_args, POSITIONS_KEY)
    if entry is None:
        return None
    if not isinstance(entry, Mapping) or not {"pos", "len"} <= set(entry) <= _FIELDS:
        raise _foreign(POSITIONS_KEY, "expected pos, len and dropped")
    resume = entry["len"]
    if type(resume) is not int:
        raise _foreign(POSITIONS_KEY, "len is not a number")
    values, dropped = _unpack(entry, "pos"), _unpack(entry, "dropped")
    fault = position_fault(values, tokens, resume, limit)
    if fault is None and len(dropped) and (dropped[0] < 0 or (np.diff(dropped) <= 0).any()):
        fault = "dropped ids are not strictly increasing"
    if fault is not None:
        raise _foreign(POSITIONS_KEY, fault)
    return Positions(values, resume, dropped)


def _entry(extra_args: object, key: str) -> Any:
    return extra_args.get(key) if isinstance(extra_args, Mapping) else None


def _foreign(key: str, why: str) -> ConfigError:
    return ConfigError(f"extra_args[{key!r}] is not what SpecPrefill sends ({why}): leave it out")


@checked(frozen=True, config=_WHOLE)
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

    prompt: StrictStr
    number: Annotated[int, Field(strict=True, ge=0)]
    length: Annotated[int, _COUNT]
    max_positions: Annotated[int, _COUNT]
    has_bos: StrictBool
    tail_tokens: Annotated[int, Field(strict=True, ge=0)] | None


@checked(frozen=True, config=_WHOLE)
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

    first: Annotated[int, Field(strict=True, ge=0)]
    count: Annotated[int, _COUNT]
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


_ROWS = TypeAdapter(Rows)


def decode_rows(
    extra_args: Mapping[str, Any] | None, tokens: int, limit: int | None = None
) -> Rows | None:
    """Read ``extra_args["specprefill_rows"]``; None for a request that is not scored.

    Parameters
    ----------
    tokens
        Number of prompt tokens that the request has: its M prompt keys, and forced look-ahead.
    limit
        Positions that the model has, where the caller knows it.

    Raises
    ------
    ConfigError
        The entry is no such thing, or its rows do not lie in this request.
    """
    entry = _entry(extra_args, ROWS_KEY)
    if entry is None:
        return None
    try:
        rows = _ROWS.validate_python(entry)
        rows.config()
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(str(part) for part in fault["loc"]) or "the entry"
        raise _foreign(ROWS_KEY, f"{where}: {fault['msg']}") from error
    if not (rows.first < tokens and tokens - rows.first <= rows.count):
        raise _foreign(
            ROWS_KEY, f"{rows.count} rows from token {rows.first} on, in a prompt of {tokens}"
        )
    if limit is not None and rows.first + rows.count > limit:
        raise _foreign(ROWS_KEY, f"rows beyond the model's {limit} positions")
    return rows


def check_request(extra_args: Mapping[str, Any] | None, tokens: int, limit: int) -> None:
    """Refuse a request whose positions or rows are not those of its ``tokens`` prompt tokens.

    Raises
    ------
    ConfigError
        See :func:`decode_positions` and :func:`decode_rows`.
    """
    decode_positions(extra_args, tokens, limit)
    decode_rows(extra_args, tokens, limit)


def own_keys(extra_args: Mapping[str, Any] | None) -> list[str]:
    """Names in a client's ``extra_args`` that only this package may write, sorted."""
    return sorted(_OURS.intersection(extra_args or ()))


def without_own_keys(extra_args: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A client's ``extra_args`` as a server may pass them on: without :func:`own_keys`."""
    if extra_args is None:
        return None
    return {name: value for name, value in extra_args.items() if name not in _OURS}


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
