"""The scorer seam: a speculator model that gives every prompt token an importance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator


class ScoringConfig(BaseModel):
    """How the speculator scores. Two requests with equal scoring share one speculator pass.

    Attributes
    ----------
    look_ahead
        Number of query rows N ≥ 1: the last prompt token's, then N−1 greedily decoded ones.
    pool_kernel
        Odd width of the average pool along the prompt; 0 switches it off.
    pool_edges
        ``padded`` divides by the kernel everywhere (the reference), ``clipped`` by the covered
        count.
    normalize
        Softmax over the ``prompt`` keys, or over all ``visible`` keys restricted to the prompt.
    ignore_eos
        Go on decoding look-ahead rows after an EOS.
    window
        Window length in speculator tokens; 0 means the speculator's own range, ``auto`` what the
        llama.cpp guide computes (:func:`harness.methods.specprefill.windows.guide_window`).
    window_query
        Which query scores a window: the ``prompt_tail`` (ours) or the ``window_end`` (the guide).
    merge
        How windows are merged: ``anchor``, ``joint`` or ``minmax`` (once, after merging).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    look_ahead: int = Field(default=8, ge=1)
    pool_kernel: int = Field(default=13, ge=0)
    pool_edges: Literal["padded", "clipped"] = "padded"
    normalize: Literal["prompt", "visible"] = "prompt"
    ignore_eos: bool = False
    window: int | Literal["auto"] = 0
    window_query: Literal["prompt_tail", "window_end"] = "prompt_tail"
    merge: Literal["anchor", "joint", "minmax"] = "anchor"

    @field_validator("window", mode="before")
    @classmethod
    def _known_window(cls, value: object) -> object:
        if value == "auto" or (type(value) is int and value >= 0):
            return value
        raise ValueError("a window is a number of tokens, 0 or auto")

    @model_validator(mode="after")
    def _odd_kernel(self) -> ScoringConfig:
        if self.pool_kernel and self.pool_kernel % 2 == 0:
            raise ValueError(f"pool_kernel must be odd or 0, not {self.pool_kernel}")
        return self


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
