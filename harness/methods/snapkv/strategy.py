"""SnapKV's prefill strategy for the transformers engine."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from harness.engines.hf.attention import attention_replaced, dense_attention
from harness.engines.hf.model import Prefilled, forward, new_cache
from harness.schema.prompts import PreparedPrompt


class SnapKVPrefill:
    """Prefill fully, then drop what the last window does not attend to."""

    def __call__(self, model: Any, prepared: PreparedPrompt) -> Prefilled:
        """Prefill; the cache that is returned holds ``budget`` entries a layer and key head."""
        knobs = prepared.directives
        kept: dict[int, Tensor] = {}

        def attend(
            module: Any, query: Any, key: Any, value: Any, mask: Any, *, scaling: float, **_: Any
        ) -> tuple[Any, None]:
            kept[module.layer_idx] = voted(
                query[0],
                key[0],
                scaling,
                budget=knobs["budget"],
                window=knobs["window"],
                kernel=knobs["pool_kernel"],
            )
            return dense_attention(module, query, key, value, scaling)

        cache = new_cache(model)
        length = prepared.original_length
        with attention_replaced(model, attend):
            logits = forward(model, prepared.token_ids, range(length), cache)[-1]
        for index, chosen in kept.items():
            layer = cache.layers[index]
            where = chosen[None, :, :, None].expand(-1, -1, -1, layer.keys.shape[-1])
            layer.keys, layer.values = layer.keys.gather(2, where), layer.values.gather(2, where)
        return Prefilled(cache, logits, length, {"pruned_layers": len(kept)})


def voted(q: Tensor, k: Tensor, scale: float, *, budget: int, window: int, kernel: int) -> Tensor:
    """Choose cache entries by the attention of the last queries.

    Parameters
    ----------
    q, k
        [Hq, M, d] and [Hk, M, d], after rotary embedding.

    Returns
    -------
    Tensor
        Sorted indices int64 [Hk, budget]: the window's own entries (at most half the budget, so
        that some of it is left to vote on) and the most attended others. Votes are summed over
        the window and averaged over the query heads of a key head, then pooled.
    """
    length, heads = k.shape[1], k.shape[0]
    if budget >= length:
        return torch.arange(length, device=k.device).expand(heads, -1)
    window = min(window, max(1, budget // 2), length - 1)
    logits = q[:, -window:].float().unflatten(0, (heads, -1)) @ k.float()[:, None].mT * scale
    row = torch.arange(length - window, length, device=k.device)
    column = torch.arange(length, device=k.device)
    attention = logits.masked_fill(column[None, :] > row[:, None], -torch.inf).softmax(-1)
    votes = attention[..., : length - window].sum(2).mean(1)
    pooled = torch.nn.functional.avg_pool1d(votes, kernel, stride=1, padding=kernel // 2)
    best = pooled.topk(budget - window, dim=1).indices
    return torch.cat([best, row.expand(heads, -1)], 1).sort(1).values
