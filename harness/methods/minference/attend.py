"""One layer of one prompt under MInference, whichever engine the q, k and v come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from harness.methods.minference import fused
from harness.methods.minference.kernel import sparse_attention
from harness.methods.minference.patterns import (
    Layer,
    columns_within,
    published_choices,
    published_columns,
)
from harness.methods.minference.published import HeadPattern
from harness.methods.minference.receipt import REFERENCE


class Attended(NamedTuple):
    """Output [H, M, d], the achieved share of the causal pairs, and the kernel's name."""

    out: Tensor
    share: float
    kernel: str


def attend(
    qkv: tuple[Tensor, Tensor, Tensor],
    scale: float,
    knobs: Mapping[str, Any],
    published: Sequence[HeadPattern] | None,
) -> Attended:
    """Attend sparsely over a whole prompt.

    Parameters
    ----------
    qkv
        q [H, M, d]; k and v [Hkv, M, d], where Hkv divides H (grouped queries).
    knobs
        The arm's options (:class:`harness.methods.minference.MInference`).
    published
        This layer's published head patterns, which then stand instead of the knobs'.
    """
    q, *narrow = qkv
    k, v = (x.repeat_interleave(q.shape[0] // x.shape[0], 0) for x in narrow)
    layer = Layer(q, k, scale, knobs["block"], knobs["sink"], knobs["last_queries"])
    if published is None:
        columns, share = columns_within(layer, knobs["pattern"], knobs["keep"])
    else:
        choices = published_choices(layer, published)
        columns, share = published_columns(layer, choices)
        if fused.fits(layer):
            return Attended(fused.fused_attention((q, k, v), choices), share, fused.NAME)
    out = sparse_attention((q, k, v), columns, knobs["block"], scale)
    return Attended(out, share, REFERENCE)
