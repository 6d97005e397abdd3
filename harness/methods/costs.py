"""What a prefill costs the target, in arithmetic, as a share of full prefill.

A decoder's forward pass of K tokens costs 2·K·P multiply-adds' worth of FLOPs in its P linear
weights, and 4·heads·head_dim FLOPs a layer for each (query, key) pair: 2 for q·k, 2 for the
weighted sum of values (Kaplan et al. 2020, arXiv:2001.08361, table 1; Hoffmann et al. 2022,
arXiv:2203.15556, appendix F, without the embedding). The output layer runs on one token of a
prefill and is left out. Full causal prefill of M tokens has M·(M+1)/2 pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.methods.base import MethodContext
from harness.schema.receipts import Cost


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The sizes of a dense decoder that its prefill's FLOPs depend on."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> ModelShape | None:
        """Read a ``config.json``; None for a model that is not a dense, gated decoder.

        Mixtures of experts and models with latent or linear attention cost otherwise, so that
        their share is not known here.
        """
        config = config.get("text_config") or config
        if any("expert" in key or "lora_rank" in key or "linear_attn" in key for key in config):
            return None
        try:
            heads = int(config["num_attention_heads"])
            hidden = int(config["hidden_size"])
            return cls(
                layers=int(config["num_hidden_layers"]),
                hidden=hidden,
                heads=heads,
                kv_heads=int(config.get("num_key_value_heads") or heads),
                head_dim=int(config.get("head_dim") or hidden // heads),
                intermediate=int(config["intermediate_size"]),
            )
        except KeyError:
            return None

    def flops(self, tokens: int, pairs: float) -> float:
        """FLOPs of a prefill of ``tokens`` tokens that computes ``pairs`` (query, key) pairs."""
        attention = self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        mlp = 3 * self.hidden * self.intermediate
        linear = 2.0 * tokens * self.layers * (attention + mlp)
        return linear + 4.0 * self.layers * self.heads * self.head_dim * pairs


def causal_pairs(tokens: int) -> int:
    """(query, key) pairs of a causal prefill, each token seeing itself."""
    return tokens * (tokens + 1) // 2


def prefill_cost(
    original: int,
    kept: int,
    shape: ModelShape | None,
    *,
    attention_share: float | None = None,
    kv_tokens: int | None = None,
) -> Cost:
    """Cost of prefilling ``kept`` of ``original`` tokens.

    Parameters
    ----------
    attention_share
        Share of full prefill's pairs; left out, the kept tokens attend causally to each other.
    kv_tokens
        Tokens in the cache at the first decode step; left out, ``kept``.
    """
    whole = causal_pairs(original)
    if attention_share is None:
        attention_share = causal_pairs(kept) / whole if whole else None
    flops_share = None
    if shape is not None and attention_share is not None:
        spent = shape.flops(kept, attention_share * whole)
        flops_share = spent / shape.flops(original, whole)
    return Cost(
        prefill_tokens=kept,
        attention_share=attention_share,
        kv_tokens=kept if kv_tokens is None else kv_tokens,
        flops_share=flops_share,
    )


def target_shape(context: MethodContext) -> ModelShape | None:
    """Shape of the target, read once from the ``config.json`` beside its tokenizer."""
    return context.handle("target_shape", lambda: _read_shape(context.tokenizer.hf.name_or_path))


def _read_shape(path: str) -> ModelShape | None:
    from transformers import PretrainedConfig

    if not path:
        return None
    try:
        config, _ = PretrainedConfig.get_config_dict(path, local_files_only=True)
    except (OSError, ValueError):
        return None
    return ModelShape.from_config(config)
