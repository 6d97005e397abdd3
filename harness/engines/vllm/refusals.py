"""Targets and options that SpecPrefill refuses, told from ``config.json`` before anything loads.

Each of them reads positions in a way that the kept tokens' original positions would break
(ALGORITHM.md, Prefill): refusing is better than silent garbage.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.errors import EngineRefusedError
from harness.models.config_facts import position_range, text_config

# Model types whose transformers configuration has a window although config.json may not say so.
_WINDOW_BY_DEFAULT = frozenset(
    {"mistral", "gemma2", "gemma3", "gemma3_text", "gemma3n", "gemma3n_text", "cohere2", "gpt_oss"}
)
_HYBRID_TYPES = frozenset(
    {
        *("bamba", "falcon_h1", "falcon_mamba", "granitemoehybrid", "jamba", "kimi_linear"),
        *("lfm2", "lfm2_moe", "mamba", "mamba2", "minimax", "nemotron_h", "plamo2"),
        *("qwen3_next", "qwen3_5", "qwen3_5_moe", "recurrent_gemma", "rwkv", "zamba", "zamba2"),
    }
)
_HYBRID_KEYS = (
    "mamba_d_state",
    "ssm_cfg",
    "ssm_state_size",
    "attn_layer_period",
    "full_attention_interval",
    "linear_num_key_heads",
    "hybrid_override_pattern",
    "linear_attn_config",
)
_ALIBI_TYPES = frozenset({"bloom", "mpt"})


def refuse(config: Mapping[str, Any]) -> str | None:
    """Return why a model cannot be a target, or None where it can.

    Parameters
    ----------
    config
        The parsed ``config.json``.

    Returns
    -------
    str or None
        One clause that names the feature, fit to stand after "cannot be a SpecPrefill target:".
    """
    text = text_config(config)
    for reason in (
        _encoder_decoder(config),
        _mla(text),
        _hybrid(text),
        _mrope(config) or _mrope(text),
        _window(text),
        _alibi(text),
    ):
        if reason is not None:
            return reason
    return None


def _encoder_decoder(config: Mapping[str, Any]) -> str | None:
    return "it is an encoder-decoder model" if config.get("is_encoder_decoder") else None


def _mla(text: Mapping[str, Any]) -> str | None:
    if text.get("kv_lora_rank"):
        return "it uses multi-head latent attention (MLA), which is not supported yet"
    return None


def _hybrid(text: Mapping[str, Any]) -> str | None:
    kinds = {str(kind) for kind in text.get("layer_types") or ()}
    kinds |= {str(kind) for kind in text.get("layers_block_type") or ()}
    other = kinds - {"full_attention", "sliding_attention", "chunked_attention", "attention"}
    if (
        other
        or text.get("model_type") in _HYBRID_TYPES
        or any(text.get(key) for key in _HYBRID_KEYS)
    ):
        return (
            "it is a hybrid model with linear-attention or state-space layers, whose state "
            "needs every token"
        )
    return None


def _mrope(config: Mapping[str, Any]) -> str | None:
    for name in ("rope_scaling", "rope_parameters"):
        rope = config.get(name)
        if not isinstance(rope, Mapping):
            continue
        kind = rope.get("rope_type", rope.get("type"))
        if kind == "mrope" or "mrope_section" in rope:
            return "it uses M-RoPE (several positions for each token), which is not supported yet"
    return None


def _window(text: Mapping[str, Any]) -> str | None:
    kinds = set(text.get("layer_types") or ())
    if "sliding_attention" in kinds or "chunked_attention" in kinds:
        return _window_reason(text.get("sliding_window") or text.get("attention_chunk_size"))
    if text.get("attention_chunk_size"):
        return _window_reason(text["attention_chunk_size"])
    if text.get("use_sliding_window") is False or (kinds and kinds == {"full_attention"}):
        return None
    if "sliding_window" not in text:
        return _window_reason(None) if text.get("model_type") in _WINDOW_BY_DEFAULT else None
    window = text["sliding_window"]
    limit = position_range(text)
    if not window or (limit is not None and int(window) >= limit):
        return None  # no window, or one that no prompt can leave
    return _window_reason(window)


def _window_reason(window: Any) -> str:
    size = f" of {window} tokens" if window else ""
    return (
        f"it uses sliding-window attention{size}, and the window would count kept tokens "
        "instead of original positions"
    )


def _alibi(text: Mapping[str, Any]) -> str | None:
    attention = text.get("attn_config")
    nested = isinstance(attention, Mapping) and attention.get("alibi")
    if text.get("alibi") or nested or text.get("model_type") in _ALIBI_TYPES:
        return "it uses ALiBi, whose biases count kept tokens instead of original positions"
    return None


def check_target(model: str, config: Mapping[str, Any]) -> None:
    """Raise where :func:`refuse` gives a reason.

    Raises
    ------
    EngineRefusedError
        One line with the model and the feature.
    """
    reason = refuse(config)
    if reason is not None:
        raise EngineRefusedError(
            f"{model} cannot be a SpecPrefill target: {reason}; choose another target"
        )


def check_options(options: Mapping[str, Any]) -> None:
    """Refuse engine options that read positions too.

    Raises
    ------
    EngineRefusedError
        Speculative decoding is asked for: its drafter reads positions.
    """
    asked = [
        name
        for name in ("speculative_config", "spec_method", "spec_model", "spec_tokens")
        if options.get(name)
    ]
    if asked:
        raise EngineRefusedError(
            "speculative decoding cannot be combined with SpecPrefill (its drafter reads "
            f"positions too): leave out {', '.join(asked)}"
        )
