"""MInference in the transformers engine: sparse attention in every layer of the model."""

from __future__ import annotations

from typing import Any

from harness.engines.hf.attention import attention_replaced
from harness.engines.hf.model import Prefilled, forward, new_cache
from harness.methods.minference.attend import Computed, attend, refuse_parts
from harness.methods.minference.published import patterns_for
from harness.methods.minference.receipt import completed
from harness.schema.prompts import PreparedPrompt


class MInferencePrefill:
    """Prefill one prompt in one step with sparse attention."""

    def __call__(self, model: Any, prepared: PreparedPrompt) -> Prefilled:
        """Prefill, and complete the receipt with the share of pairs that was computed."""
        knobs = prepared.directives
        config = model.config.get_text_config()
        patterns = patterns_for(
            config.num_hidden_layers, config.num_attention_heads, knobs["pattern_file"]
        )
        computed = Computed()

        def replaced(
            module: Any, query: Any, key: Any, value: Any, mask: Any, *, scaling: float, **more: Any
        ) -> tuple[Any, None]:
            refuse_parts({name: more.get(name) for name in ("softcap", "sliding_window", "s_aux")})
            heads = None if patterns is None else patterns[module.layer_idx]
            attended = attend((query[0], key[0], value[0]), scaling, knobs, heads)
            out = computed.add(module.layer_idx, attended)
            return out.transpose(0, 1)[None], None

        cache = new_cache(model)
        length = prepared.original_length
        with attention_replaced(model, replaced):
            logits = forward(model, prepared.token_ids, range(length), cache)[-1]
        receipt = completed(prepared, computed.share, computed.kernel)
        return Prefilled(cache, logits, length, {"sparse_layers": computed.layers}, receipt)
