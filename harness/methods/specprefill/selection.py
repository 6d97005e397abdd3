"""From importance to kept tokens (ALGORITHM.md, Selection)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal
from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.engines.scorer import Scores, ScoringConfig
from harness.methods.specprefill.config import Boosts, Ends, SelectionConfig
from harness.schema.receipts import Status

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Selection:
    """Which tokens of a prompt are kept.

    Attributes
    ----------
    kept
        Sorted token indices.
    length
        M, the prompt's length.
    status
        ``active``, ``kept_all``, or ``failed`` (then everything is kept).
    details
        Facts for the receipt: chunks, kept chunks, and whether a limit or forced chunk decided.
    """

    kept: tuple[int, ...]
    length: int
    status: Status
    reason: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def achieved(self) -> float | None:
        """Kept share of the prompt; None for an empty prompt."""
        return len(self.kept) / self.length if self.length else None


def merged_importance(scores: Scores, config: ScoringConfig) -> npt.NDArray[np.float32]:
    """Importance [M] of merged windows, min-maxed once where the merge says so."""
    importance = scores.importance(config.look_ahead)
    minmax = config.merge == "minmax" or config.window_query == "window_end"
    if scores.windows > 1 and minmax:
        return normalize(importance, "minmax").astype(np.float32)
    return importance


def select(
    importance: npt.NDArray[np.float32], config: SelectionConfig, template: Sequence[int] = ()
) -> Selection:
    """Keep the chunks that matter.

    Parameters
    ----------
    importance
        float32 [M], one score a token, the larger the more important.
    template
        Indices of the chat template's own tokens, for ``always_keep.template``.

    Returns
    -------
    Selection
        Status ``failed`` with every token kept where a score is not finite, or where all of
        them are zero, so that any order would be made up.
    """
    length = len(importance)
    if length == 0:
        return Selection((), 0, Status.KEPT_ALL, "the prompt is empty")
    raw = importance.astype(np.float64)
    if not np.isfinite(raw).all():
        bad = int((~np.isfinite(raw)).sum())
        return _failed(length, f"{bad} of {length} scores are not finite")
    values = boosted(normalize(raw, config.normalize_scores), config.boost)
    total = float(values.sum())
    if not raw.any() or (config.select == "mass" and total <= 0):
        return _failed(length, "the scores sum to zero")
    sizes, sums = _chunk_sums(values, config.chunk)
    order = np.argsort(sums / sizes if config.order == "lowest" else -(sums / sizes), kind="stable")
    forced = forced_chunks(length, config.chunk, config.always_keep)
    if config.always_keep.template:
        own = np.asarray(template, dtype=np.int64) // config.chunk
        forced = np.union1d(forced, own)
    if config.select == "rate":
        wanted = keep_count(len(sizes), config.keep)
    else:
        wanted = _mass_count(sums, _forced_first(order, forced), config.mass * total)
    chunks, limits = _within_limits(_forced_first(order, forced), wanted, sizes, forced, config)
    facts = {"forced_chunks": len(forced), "chunk_deciles": deciles(sums / sizes), **limits}
    return _selection(length, config.chunk, chunks, facts)


def deciles(scores: npt.NDArray[np.float64]) -> str:
    """Rank of each chunk's score among all, one digit a chunk: what a report shades by.

    >>> deciles(np.array([0.1, 0.9, 0.4]))
    '063'
    """
    ranks = np.argsort(np.argsort(scores, kind="stable"), kind="stable")
    return "".join(map(str, (ranks * 10 // len(scores)).tolist()))


def keep_count(chunks: int, keep: float) -> int:
    """ceil(keep × chunks) in exact decimal arithmetic.

    >>> keep_count(100, 0.07)
    7
    """
    exact = Decimal(str(keep)) * chunks
    return int(exact.to_integral_value(rounding=ROUND_CEILING))


def forced_chunks(length: int, chunk: int, ends: Ends) -> Indices:
    """Sorted chunks that hold the first and last tokens of ``ends``, whole."""
    count = ceil(length / chunk)
    first = min(count, ceil(ends.first / chunk))
    last = max(0, length - ends.last) // chunk if ends.last else count
    return np.union1d(np.arange(first), np.arange(last, count)).astype(np.int64)


def normalize(values: npt.NDArray[Any], how: str) -> Floats:
    """Scale scores: ``none``, ``minmax`` to [0, 1], ``percentile`` rank in (0, 1], ``zscore``.

    Constant scores become 0 under ``minmax`` and ``zscore``. Ties share their mean rank.
    """
    x = values.astype(np.float64)
    if how == "none":
        return x
    if how == "minmax":
        low, high = x.min(), x.max()
        return (x - low) / (high - low) if high > low else np.zeros_like(x)
    if how == "zscore":
        spread = x.std()
        return (x - x.mean()) / spread if spread > 0 else np.zeros_like(x)
    if how == "percentile":
        _, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
        mean_rank = np.cumsum(counts) - (counts - 1) / 2
        ranks: Floats = mean_rank[inverse] / len(x)
        return ranks
    raise ValueError(f"unknown normalization {how!r}")


def boosted(values: Floats, boost: Boosts) -> Floats:
    """Multiply the scores at the prompt's ends; where both ends overlap, both factors apply."""
    out = values.copy()
    out[: boost.first.tokens] *= boost.first.factor
    if boost.last.tokens:
        out[-boost.last.tokens :] *= boost.last.factor
    return out


def _chunk_sums(values: Floats, chunk: int) -> tuple[Indices, Floats]:
    """Token count and score sum of each chunk; the last may be short."""
    starts = np.arange(0, len(values), chunk)
    sizes = np.minimum(chunk, len(values) - starts)
    return sizes, np.add.reduceat(values, starts)


def _forced_first(order: Indices, forced: Indices) -> Indices:
    """``order`` with the forced chunks moved to the front."""
    is_forced = np.isin(order, forced)
    return np.concatenate([order[is_forced], order[~is_forced]])


def _mass_count(sums: Floats, order: Indices, mass: float) -> int:
    """Return how many chunks of ``order`` it takes until their scores sum to ``mass``."""
    reached = np.cumsum(sums[order])
    # Rounding may leave the last partial sum a few ulps below a mass equal to the total.
    return min(len(order), int(np.searchsorted(reached, mass * (1 - 1e-12))) + 1)


def _within_limits(
    order: Indices, wanted: int, sizes: Indices, forced: Indices, config: SelectionConfig
) -> tuple[Indices, dict[str, Any]]:
    """Return the first chunks of ``order`` within ``min_keep`` and ``max_keep`` tokens.

    Forced chunks are kept whatever the budget; the facts say when they exceed it. At least one
    chunk stays, for there must be something to prefill.
    """
    tokens = np.cumsum(sizes[order])
    facts: dict[str, Any] = {}
    count = max(wanted, len(forced), 1)
    if len(forced) > wanted:
        facts["always_keep_exceeds_budget"] = True
    at_least = int(np.searchsorted(tokens, min(config.min_keep, int(tokens[-1])))) + 1
    if config.min_keep and at_least > count:
        count, facts["min_keep_applied"] = at_least, True
    if config.max_keep is not None:
        at_most = int(np.searchsorted(tokens, config.max_keep, side="right"))
        floor = max(len(forced), 1)
        if max(at_most, floor) < count:
            count, facts["max_keep_applied"] = max(at_most, floor), True
    return np.sort(order[:count]), facts


def _selection(length: int, chunk: int, chunks: Indices, facts: dict[str, Any]) -> Selection:
    count = ceil(length / chunk)
    kept = (chunks[:, None] * chunk + np.arange(chunk)).ravel()
    indices = tuple(kept[kept < length].tolist())
    details = {"chunk": chunk, "chunks": count, "chunks_kept": len(chunks), **facts}
    status = Status.KEPT_ALL if len(indices) == length else Status.ACTIVE
    return Selection(indices, length, status, None, details)


def _failed(length: int, reason: str) -> Selection:
    return Selection(tuple(range(length)), length, Status.FAILED, f"{reason}: full prefill")
