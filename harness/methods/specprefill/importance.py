"""Token importance from a speculator's queries and keys (ALGORITHM.md, Scoring 2–4).

Shapes: N query rows, M prompt keys, A look-ahead keys, Hq query heads, Hk key heads, d the head
size, H any number of query heads (all of a layer, or one tensor-parallel rank's). Nothing of size
M × M is ever made: the work is O(N·M·H·d) a layer, the memory O(N·M) a block of heads.
"""

from __future__ import annotations

import torch
from torch import Tensor

from harness.engines.scorer import ScoringConfig

# Floats in one block of [heads, N, M]: 4 MiB, so that softmax and pooling stay in the cache.
BLOCK_ELEMENTS = 2**20


def attention_logits(q: Tensor, k: Tensor, scale: float, softcap: float | None = None) -> Tensor:
    """Scaled (and soft-capped) dot products of queries and keys, in float32.

    Parameters
    ----------
    q
        [N, Hq, d] queries after rotary embedding and query norm, any dtype.
    k
        [M, Hk, d] keys, likewise. Query head h uses key head h // (Hq // Hk).
    scale
        The model's own factor (usually d^-½).
    softcap
        c·tanh(x / c) for models that cap attention logits; None or 0 for none.

    Returns
    -------
    Tensor
        float32 [Hq, N, M].
    """
    rows, heads, dim = q.shape
    keys, key_heads, _ = k.shape
    group = heads // key_heads
    # [Hk, group·N, d]: the query heads of a group share one matrix product.
    queries = q.float().permute(1, 0, 2).reshape(key_heads, group * rows, dim)
    logits = torch.bmm(queries, k.float().permute(1, 2, 0)).mul_(scale)
    if softcap:
        logits = torch.tanh(logits.div_(softcap)).mul_(softcap)
    return logits.view(heads, rows, keys)


def log_denominator(
    logits: Tensor, config: ScoringConfig, ahead_logits: Tensor | None = None
) -> Tensor:
    """Logarithm of the softmax denominator of each head and row: float32 [H, N, 1].

    ``normalize: prompt`` sums over the prompt keys of ``logits`` [H, N, M]; ``visible`` adds the
    look-ahead keys that a row sees, ``ahead_logits`` [H, N, A]: row i has i of them, its own
    among them.
    """
    total = torch.logsumexp(logits, dim=-1, keepdim=True)
    if config.normalize == "prompt" or ahead_logits is None or ahead_logits.shape[-1] == 0:
        return total
    rows, ahead = ahead_logits.shape[-2:]
    row, key = torch.arange(rows)[:, None], torch.arange(ahead)[None, :]
    unseen = (key >= row).to(ahead_logits.device)
    seen = ahead_logits.float().masked_fill(unseen, float("-inf"))
    return torch.logaddexp(total, torch.logsumexp(seen, dim=-1, keepdim=True))


def pool(p: Tensor, config: ScoringConfig) -> Tensor:
    """Average pool along the last axis, same length (ALGORITHM.md, Scoring 3).

    ``padded`` divides by the kernel everywhere, so that the edges are damped; ``clipped`` divides
    by the number of covered positions.
    """
    kernel = config.pool_kernel
    if kernel <= 1:
        return p
    length, half = p.shape[-1], kernel // 2
    sums = _window_sums(torch.nn.functional.pad(p, (half, half)), kernel)
    if config.pool_edges == "padded":
        return sums.div_(kernel)
    index = torch.arange(length, device=p.device)
    covered = (index + half).clamp(max=length - 1) - (index - half).clamp(min=0) + 1
    return sums.div_(covered)


def _window_sums(x: Tensor, width: int) -> Tensor:
    """Sums of ``width`` neighbours: [..., L] → [..., L − width + 1].

    Adds sums of 1, 2, 4, … neighbours by the binary digits of ``width``: log₂ many passes
    instead of ``width``. A running total (cumsum) would need one, but its rounding error, set by
    the whole sum, would drown small probabilities.
    """
    length = x.shape[-1] - width + 1
    powers, size, offset = x, 1, 0
    total: Tensor | None = None
    while True:
        if width & size:
            piece = powers[..., offset : offset + length]
            total = piece.clone() if total is None else total.add_(piece)
            offset += size
        if 2 * size > width:
            break
        powers = powers[..., :-size] + powers[..., size:]
        size *= 2
    assert total is not None  # width ≥ 1 has at least one digit
    return total


def row_importance(
    logits: Tensor,
    config: ScoringConfig,
    ahead_logits: Tensor | None = None,
    *,
    normalized: bool = False,
) -> Tensor:
    """Maximum over heads of pooled attention: float32 [N, M] from logits [H, N, M].

    One layer's share of ``Scores.rows``; take the elementwise maximum over layers (and ranks).
    ``logits`` and ``ahead_logits`` are as in :func:`log_denominator`; ``normalized`` says that
    the logits are log probabilities already.
    """
    best: Tensor | None = None
    heads, rows, keys = logits.shape
    step = max(1, BLOCK_ELEMENTS // max(1, rows * keys))
    for start in range(0, heads, step):
        block = logits[start : start + step]
        ahead = None if ahead_logits is None else ahead_logits[start : start + step]
        if not normalized:
            block = block - log_denominator(block, config, ahead)
        p = torch.exp(block)
        here = pool(p, config).amax(dim=0)
        best = here if best is None else torch.maximum(best, here)
    assert best is not None  # a layer has heads
    return best


def layer_importance(
    q: Tensor,
    k: Tensor,
    scale: float,
    config: ScoringConfig,
    *,
    softcap: float | None = None,
    ahead_keys: Tensor | None = None,
) -> Tensor:
    """Return one layer's :func:`row_importance` from queries [N, Hq, d] and keys [M, Hk, d].

    Works key head by key head where the whole layer would be large. ``ahead_keys`` [A, Hk, d]
    are the look-ahead tokens' keys; only ``normalize: visible`` reads them.
    """
    if config.normalize == "prompt":
        ahead_keys = None
    rows, heads, _ = q.shape
    key_heads = k.shape[1]
    group = heads // key_heads
    step = max(1, BLOCK_ELEMENTS // max(1, rows * k.shape[0] * group))
    best: Tensor | None = None
    for start in range(0, key_heads, step):
        stop = min(start + step, key_heads)
        queries = q[:, start * group : stop * group]
        logits = attention_logits(queries, k[:, start:stop], scale, softcap)
        ahead = (
            None
            if ahead_keys is None
            else attention_logits(queries, ahead_keys[:, start:stop], scale, softcap)
        )
        here = row_importance(logits, config, ahead)
        best = here if best is None else torch.maximum(best, here)
    assert best is not None  # a layer has heads
    return best
