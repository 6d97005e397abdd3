"""Controls: SpecPrefill's own selection rules with other scores than a speculator's.

Each keeps ceil(keep × chunks) chunks as SpecPrefill does, so that only *which* chunks differs.
Below them is chance (``random``) or a rule that reads nothing (``sink_recent``); above them the
gold evidence (``oracle``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field
from pydantic.dataclasses import dataclass

from harness.methods.base import MethodContext
from harness.methods.layout import LayoutError, token_offsets, touching
from harness.methods.one_by_one import KeepsShare
from harness.methods.pruning import (
    STRICT,
    Positions,
    Stopwatch,
    prune,
    template_of,
)
from harness.methods.specprefill.config import Ends, SelectionConfig
from harness.methods.specprefill.selection import select
from harness.schema.prompts import PreparedPrompt, Prompt

Scores = npt.NDArray[np.float32]

_EVIDENCE = 4.0  # the oracle's rank of a chunk with evidence, and above


@dataclass(frozen=True, config=STRICT)
class _Control(KeepsShare):
    """A score for each token, then SpecPrefill's selection.

    Attributes
    ----------
    keep, chunk, always_keep
        As in :class:`harness.methods.specprefill.config.SelectionConfig`.
    """

    chunk: Annotated[int, Field(ge=1)] = 32
    always_keep: Ends = Ends(first=0, last=1)
    positions: Positions = "original"

    def scores(self, prompt: Prompt, context: MethodContext) -> Scores:
        """Score of each token, the larger the more important: float32 [M], finite, not all 0.

        Raises
        ------
        LayoutError
            The prompt does not say what the control needs.
        """
        raise NotImplementedError

    def shortfall(self, scores: Scores, kept: Sequence[int]) -> str | None:
        """Say what the budget left no room for, where the control promises it."""
        del scores, kept
        return None

    def prepare_one(
        self, prompt: Prompt, context: MethodContext, watch: Stopwatch
    ) -> PreparedPrompt:
        """Return a prompt with the chunks of the highest scores."""
        config = SelectionConfig(keep=self.keep, chunk=self.chunk, always_keep=self.always_keep)
        scores = self.scores(prompt, context)
        template = template_of(prompt, context, wanted=config.always_keep.template)
        selection = select(scores, config, template)
        watch.lap("select")
        return prune(
            self,
            prompt,
            selection.kept,
            context,
            watch,
            positions=self.positions,
            reason=selection.reason or self.shortfall(scores, selection.kept),
            details=selection.details,
        )


@dataclass(frozen=True, config=STRICT)
class RandomChunks(_Control):
    """Chunks drawn by the method's seed and the example's id.

    A prompt's chunks have one random order for a seed: what is kept at 0.1 is kept at 0.3 too,
    and batches change nothing.
    """

    name: ClassVar[str] = "random"
    stochastic: ClassVar[bool] = True

    def scores(self, prompt: Prompt, context: MethodContext) -> Scores:
        """One uniform draw in (0, 1] a chunk."""
        digest = hashlib.sha256(prompt.example_id.encode()).digest()
        seed = [context.method_seed, int.from_bytes(digest[:8], "big")]
        length = len(prompt.token_ids)
        draws = 1.0 - np.random.default_rng(seed).random(-(-length // self.chunk))
        return np.repeat(draws, self.chunk)[:length].astype(np.float32)


@dataclass(frozen=True, config=STRICT)
class SinkRecent(_Control):
    """The first tokens and the last ones (Xiao et al. 2023, arXiv:2309.17453).

    Attributes
    ----------
    always_keep
        ``first`` is the sink, 4 tokens in the paper, rounded up to whole chunks here.
    """

    name: ClassVar[str] = "sink_recent"

    always_keep: Ends = Ends(first=4, last=1)

    def scores(self, prompt: Prompt, context: MethodContext) -> Scores:
        """The later, the higher."""
        return np.arange(1, len(prompt.token_ids) + 1, dtype=np.float32)


@dataclass(frozen=True, config=STRICT)
class Oracle(_Control):
    """Gold evidence first, then the question, the instruction and the evidence's surroundings.

    An upper bound for methods that choose chunks: it reads the answer key.
    """

    name: ClassVar[str] = "oracle"
    needs: ClassVar[frozenset[str]] = frozenset({"evidence"})

    def scores(self, prompt: Prompt, context: MethodContext) -> Scores:
        """Rank of the token's chunk: evidence 4 and above, question 3, instruction 2, rest < 1."""
        segments = prompt.segments
        if segments is None or not segments.evidence:
            raise LayoutError("the task marks no gold evidence")
        starts, stops = token_offsets(prompt, context.tokenizer)
        length = len(starts)
        edges = np.arange(0, length, self.chunk)

        def share(spans: Sequence[tuple[int, int]]) -> npt.NDArray[np.float64]:
            hits = np.add.reduceat(touching(spans, starts, stops).astype(np.float64), edges)
            shares: npt.NDArray[np.float64] = hits / np.minimum(self.chunk, length - edges)
            return shares

        evidence = share(segments.evidence)
        holders = np.flatnonzero(evidence)
        if not len(holders):
            raise LayoutError("the gold evidence covers no token of the prompt")
        distance = np.abs(np.arange(len(edges))[:, None] - holders[None, :]).min(axis=1)
        rank = 1.0 / (1.0 + distance)
        rank[share(segments.instruction) > 0] = 2.0
        rank[share(segments.question) > 0] = 3.0
        rank[holders] = _EVIDENCE + evidence[holders]
        return np.repeat(rank, self.chunk)[:length].astype(np.float32)

    def shortfall(self, scores: Scores, kept: Sequence[int]) -> str | None:
        """Say that the budget ends before the evidence does."""
        holders = int((scores >= _EVIDENCE).sum())
        held = int((scores[list(kept)] >= _EVIDENCE).sum())
        if held == holders:
            return None
        return f"the budget holds {held} of {holders} tokens of the chunks with evidence"
