"""The per-head pattern files that MInference's authors publish for known models.

A file is a JSON list with one object a layer, which maps a query head's number to
``[pattern, a, b, score]``: ``vertical_and_slash`` with the numbers of columns and diagonals,
``stream_llm`` with the lengths of sink and local window, or ``block_sparse`` with the number of
blocks a row.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from harness.errors import ConfigError, DataError

KINDS = ("vertical_and_slash", "stream_llm", "block_sparse")


class HeadPattern(NamedTuple):
    """One head's pattern with its two sizes, in tokens, diagonals or blocks as the kind says."""

    kind: str
    first: int
    second: int


@lru_cache(maxsize=8)
def read_patterns(path: str) -> tuple[tuple[HeadPattern, ...], ...]:
    """Return each layer's head patterns, in the order of the heads.

    Raises
    ------
    DataError
        The file cannot be read or is not such a list; the message names the layer and head.
    """
    try:
        raw = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read the pattern file {path}: {error}") from error
    if not isinstance(raw, list) or not raw or not all(isinstance(x, dict) and x for x in raw):
        raise DataError(f"{path} is not a list with one object of head patterns a layer")
    return tuple(
        tuple(_head(path, layer, str(head), heads) for head in range(len(heads)))
        for layer, heads in enumerate(raw)
    )


def patterns_for(
    layers: int, heads: int, path: str | None
) -> tuple[tuple[HeadPattern, ...], ...] | None:
    """Return the patterns of a file that fits the model; None where no file is named.

    Raises
    ------
    ConfigError
        The file is for a model of another size.
    """
    if path is None:
        return None
    patterns = read_patterns(path)
    found = (len(patterns), len(patterns[0]))
    if found != (layers, heads):
        raise ConfigError(
            f"{path} is for {found[0]} layers of {found[1]} heads, the target has {layers} of "
            f"{heads}"
        )
    return patterns


def _head(path: str, layer: int, head: str, heads: dict[str, Any]) -> HeadPattern:
    entry = heads.get(head)
    fits = (
        isinstance(entry, list)
        and len(entry) >= 3
        and entry[0] in KINDS
        and all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in entry[1:3])
    )
    if not fits or entry is None:
        raise DataError(
            f"{path}: layer {layer}, head {head} is {entry!r}; it must be [pattern, size, size, "
            f"score] with a pattern of {', '.join(KINDS)}"
        )
    return HeadPattern(*entry[:3])
