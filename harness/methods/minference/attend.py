"""One layer of one prompt under MInference, whichever engine the q, k and v come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from harness.methods.minference.kernel import sparse_attention
from harness.methods.minference.patterns import Layer, columns_within, published_columns
from harness.methods.minference.published import HeadPattern


def attend(
    qkv: tuple[Tensor, Tensor, Tensor],
    scale: float,
    knobs: Mapping[str, Any],
    published: Sequence[HeadPattern] | None,
) -> tuple[Tensor, float]:
    """Attend sparsely over a whole prompt.

    Parameters
    ----------
    qkv
        q [H, M, d]; k and v [Hkv, M, d], where Hkv divides H (grouped queries).
    knobs
        The arm's options (:class:`harness.methods.minference.MInference`).
    published
        This layer's published head patterns, which then stand instead of the knobs'.

    Returns
    -------
    tuple
        [H, M, d], and the achieved share of the causal pairs.
    """
    q, *narrow = qkv
    k, v = (x.repeat_interleave(q.shape[0] // x.shape[0], 0) for x in narrow)
    layer = Layer(q, k, scale, knobs["block"], knobs["sink"], knobs["last_queries"])
    if published is None:
        columns, share = columns_within(layer, knobs["pattern"], knobs["keep"])
    else:
        columns, share = published_columns(layer, published)
    return sparse_attention((q, k, v), columns, knobs["block"], scale), share
