"""The prefill strategy: sparse attention in every layer of a transformers model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.engines.hf_attention import attention_replaced
from harness.engines.hf_model import Prefilled, forward, new_cache
from harness.errors import ConfigError
from harness.methods.costs import prefill_cost
from harness.methods.minference.kernel import sparse_attention
from harness.methods.minference.patterns import Layer, columns_within, published_columns
from harness.methods.minference.published import HeadPattern, read_patterns
from harness.prompts import PreparedPrompt


class MInferencePrefill:
    """Prefill one prompt in one step with sparse attention."""

    def __call__(self, model: Any, prepared: PreparedPrompt) -> Prefilled:
        """Prefill, and complete the receipt with the share of pairs that was computed."""
        knobs = prepared.directives
        shares: list[float] = []
        published = _published(model, knobs["pattern_file"])

        def attend(
            module: Any, query: Any, key: Any, value: Any, mask: Any, *, scaling: float, **_: Any
        ) -> tuple[Any, None]:
            group = query.shape[1] // key.shape[1]
            k, v = (x[0].repeat_interleave(group, 0) for x in (key, value))
            layer = Layer(
                query[0], k, scaling, knobs["block"], knobs["sink"], knobs["last_queries"]
            )
            if published is None:
                columns, share = columns_within(layer, knobs["pattern"], knobs["keep"])
            else:
                columns, share = published_columns(layer, published[module.layer_idx])
            shares.append(share)
            out = sparse_attention((query[0], k, v), columns, knobs["block"], scaling)
            return out.transpose(0, 1)[None], None

        cache = new_cache(model)
        length = prepared.original_length
        with attention_replaced(model, attend):
            logits = forward(model, prepared.token_ids, range(length), cache)[-1]
        achieved = sum(shares) / len(shares)
        receipt = replace(
            prepared.receipt,
            keep_achieved=achieved,
            cost=prefill_cost(length, length, knobs["shape"], attention_share=achieved),
            details={
                "pattern": "published" if published else knobs["pattern"],
                "latency": "reference kernel",
            },
        )
        return Prefilled(cache, logits, length, {"sparse_layers": len(shares)}, receipt)


def _published(model: Any, path: str | None) -> tuple[tuple[HeadPattern, ...], ...] | None:
    """Return the patterns of a file that fits the model."""
    if path is None:
        return None
    patterns = read_patterns(path)
    config = model.config.get_text_config()
    wanted = (config.num_hidden_layers, config.num_attention_heads)
    found = (len(patterns), len(patterns[0]))
    if found != wanted:
        raise ConfigError(
            f"{path} is for {found[0]} layers of {found[1]} heads, the target has {wanted[0]} of "
            f"{wanted[1]}"
        )
    return patterns
