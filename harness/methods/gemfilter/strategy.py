"""GemFilter's prefill strategy for the transformers engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from harness.engines.hf.attention import attention_replaced, dense_attention
from harness.engines.hf.model import Prefilled, forward, new_cache
from harness.errors import UnsupportedError
from harness.methods.costs import ModelShape, causal_pairs
from harness.methods.pruning import Stopwatch
from harness.schema.prompts import PreparedPrompt
from harness.schema.receipts import Cost, spans_of


class _EnoughError(Exception):
    """Ends a forward pass at the filter layer."""


class GemFilterPrefill:
    """Choose tokens by an early layer, then prefill them."""

    def __call__(self, model: Any, prepared: PreparedPrompt) -> Prefilled:
        """Prefill the chosen tokens, and complete the receipt with them."""
        knobs = prepared.directives
        layers = model.config.get_text_config().num_hidden_layers
        filter_layers = knobs["filter_layer"] or max(1, round(0.4 * layers))
        if filter_layers > layers:
            raise UnsupportedError(
                f"gemfilter: filter_layer is {filter_layers}, the target has {layers} layers"
            )
        watch = Stopwatch()
        scores = filter_scores(model, prepared.token_ids, filter_layers, knobs["pool_kernel"])
        kept = tuple(sorted(scores.topk(knobs["budget"]).indices.tolist()))
        watch.lap("score")
        original = knobs["positions"] == "original"
        positions = kept if original else tuple(range(len(kept)))
        cache = new_cache(model)
        tokens = [prepared.token_ids[i] for i in kept]
        logits = forward(model, tokens, positions, cache)[-1]
        receipt = replace(
            prepared.receipt,
            kept_spans=spans_of(kept),
            stages_s={**prepared.receipt.stages_s, **watch.stages},
            cost=_cost(len(scores), len(kept), filter_layers / layers, knobs["shape"]),
            details={"filter_layers": filter_layers, "positions": knobs["positions"]},
        )
        resume = len(scores) if original else len(kept)
        return Prefilled(cache, logits, resume, {"filter_layers": filter_layers}, receipt)


def filter_scores(model: Any, token_ids: tuple[int, ...], layers: int, kernel: int) -> Tensor:
    """Attention of the last token in layer ``layers``, summed over heads and pooled: [M].

    The pass stops there: later layers do not run.
    """
    found: list[Tensor] = []

    def attend(
        module: Any, query: Any, key: Any, value: Any, mask: Any, *, scaling: float, **_: Any
    ) -> tuple[Any, None]:
        if module.layer_idx < layers - 1:
            return dense_attention(module, query, key, value, scaling)
        last = query[0, :, -1:].float().unflatten(0, (key.shape[1], -1))
        attention = (last @ key[0].float()[:, None].mT * scaling).softmax(-1)
        found.append(attention.sum((0, 1, 2)))
        raise _EnoughError

    try:
        with attention_replaced(model, attend):
            forward(model, token_ids, range(len(token_ids)), new_cache(model))
    except _EnoughError:
        pass
    pooled = torch.nn.functional.avg_pool1d(found[0][None], kernel, stride=1, padding=kernel // 2)
    return pooled[0]


def _cost(length: int, kept: int, depth: float, shape: ModelShape | None) -> Cost:
    """Cost of a pass over ``depth`` of the layers with every token, then all layers with kept."""
    whole, pairs = causal_pairs(length), causal_pairs(kept)
    flops_share = None
    if shape is not None:
        flops_share = depth + shape.flops(kept, pairs) / shape.flops(length, whole)
    return Cost(
        prefill_tokens=kept,
        attention_share=depth + pairs / whole,
        kv_tokens=kept,
        flops_share=flops_share,
    )
