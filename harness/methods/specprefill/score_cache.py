"""Scores kept for other keep rates and shorter look-aheads (DESIGN.md, rule 3)."""

from __future__ import annotations

from typing import Any, NamedTuple

from harness.engines.scorer import Scores, ScoringConfig

_MEMO = "scores"


class _Known(NamedTuple):
    look_ahead: int
    scores: Scores


class ScoreCache:
    """Scores by prompt and scoring configuration.

    A pass with N rows serves every n ≤ N: a row's scores depend on no later row. Only a prompt
    cut into windows is excepted, since its windows leave room for N: it serves N alone.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], _Known] = {}

    @classmethod
    def of(cls, memo: dict[str, Any]) -> ScoreCache:
        """Return the cache that a context's ``memo`` holds, made on first use."""
        cache: ScoreCache = memo.setdefault(_MEMO, cls())
        return cache

    def get(self, token_ids: tuple[int, ...], scoring: ScoringConfig) -> Scores | None:
        """Return scores that serve ``scoring``, or None."""
        known = self._known.get(_key(token_ids, scoring))
        if known is None or known.look_ahead < scoring.look_ahead:
            return None
        if known.scores.windows > 1 and known.look_ahead != scoring.look_ahead:
            return None
        return known.scores

    def put(self, token_ids: tuple[int, ...], scoring: ScoringConfig, scores: Scores) -> None:
        """Keep scores made under ``scoring``, in place of those of a shorter look-ahead."""
        self._known[_key(token_ids, scoring)] = _Known(scoring.look_ahead, scores)


def _key(token_ids: tuple[int, ...], scoring: ScoringConfig) -> tuple[Any, ...]:
    return token_ids, scoring.model_copy(update={"look_ahead": 1})
