"""The scorer seam: a speculator model that gives every prompt token an importance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from harness.specprefill.config import ScoringConfig


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """One prompt to score.

    Attributes
    ----------
    token_ids
        M ids of the speculator's tokenizer.
    tail_tokens
        Length of the prompt's last segment in tokens, for windows; None where unknown.
    """

    example_id: str
    token_ids: tuple[int, ...]
    config: ScoringConfig
    tail_tokens: int | None = None


@dataclass(frozen=True)
class Scores:
    """Importance of one prompt's tokens.

    Attributes
    ----------
    rows
        float32 [N', M]: for each actual query row the maximum over layers and heads of the pooled
        attention (ALGORITHM.md, Scoring 2–3 and the max of 4). N' ≤ look-ahead: an EOS ends the
        rows. The mean over the first n rows is the importance at look-ahead n, so that one pass
        serves every smaller look-ahead.
    look_ahead_tokens
        The N'−1 greedily decoded tokens behind rows 1…N'−1.
    windows
        Number of windows used (1 where the prompt fits).
    seconds
        Time in the scorer; in a batch, the batch's time divided by its token share.
    counters
        Hook counters (``rows_captured`` …).
    """

    example_id: str
    rows: npt.NDArray[np.float32]
    look_ahead_tokens: tuple[int, ...]
    windows: int = 1
    seconds: float = 0.0
    counters: Mapping[str, int] = field(default_factory=dict)

    def importance(self, look_ahead: int) -> npt.NDArray[np.float32]:
        """Mean over the first ``look_ahead`` actual rows: float32 [M] (ALGORITHM.md, Scoring 4)."""
        mean: npt.NDArray[np.float32] = self.rows[:look_ahead].mean(axis=0, dtype=np.float32)
        return mean


class Scorer(Protocol):
    """An open speculator."""

    @property
    def identity(self) -> Mapping[str, str]:
        """Engine, version, dtype and model digest, for the records."""

    @property
    def max_positions(self) -> int:
        """The speculator's position range, which bounds a window."""

    def score(self, requests: Iterable[ScoreRequest]) -> Iterator[Scores]:
        """Score prompts; yields in the order of ``requests`` as each is ready."""

    def close(self) -> None:
        """End the speculator. Idempotent."""
