"""The knobs of draft/verify prefill, under the names of its published description."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from harness.methods.pruning import STRICT

Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, le=1)]

MIN_DECIDED = 4
"""Chunks that must be decided before the rejection rate can end the attempt."""


@dataclass(frozen=True, config=STRICT)
class PrefillConfig:
    """How the draft proposes and the verifier decides.

    Attributes
    ----------
    draft_chunk_size
        Tokens that the draft fills at once.
    verify_stride
        A checkpoint stands at every so many tokens of a chunk, and at its last token.
    acceptance_threshold
        Least centred cosine of the verifier's hidden state and the mapped draft's; above 1
        nothing is ever accepted.
    max_rejection_rate
        Share of rejected chunks, among at least four decided, above which the prompt is prefilled
        fully.
    fallback_to_full
        Whether that fallback is on.
    """

    draft_chunk_size: Count = 128
    verify_stride: Count = 64
    acceptance_threshold: Annotated[float, Field(ge=-1, allow_inf_nan=False)] = 0.92
    max_rejection_rate: Share = 0.3
    fallback_to_full: bool = True

    def checkpoints(self, start: int, stop: int) -> list[int]:
        """Positions of the checkpoints of the chunk ``start`` … ``stop`` − 1."""
        every = range(start + self.verify_stride - 1, stop, self.verify_stride)
        return sorted({*every, stop - 1})
