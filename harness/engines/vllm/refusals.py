"""Models and options that SpecPrefill refuses, and why: refusing is better than silent garbage.

A *target* must read positions so that kept tokens may stand at their original ones (ALGORITHM.md,
Prefill). A *speculator* must have its attention where it is scored: in query rows, and in keys of
the whole prompt, with nothing added to their product.

What is told here from ``config.json`` only spares the start of an engine. The last word is with
the layers of the loaded model (:mod:`harness.engines.vllm.layers`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Literal

from harness.errors import EngineRefusedError
from harness.models.config_facts import position_range, text_config

Role = Literal["target", "speculator"]


class Feature(StrEnum):
    """What a model has that SpecPrefill cannot serve."""

    ENCODER_DECODER = "it is an encoder-decoder model"
    MLA = "it uses multi-head latent attention (MLA), which is not supported yet"
    HYBRID = "it is a hybrid model with linear-attention or state-space layers"
    MROPE = "it uses M-RoPE (several positions for each token), which is not supported yet"
    WINDOW = "it uses sliding-window attention"
    CHUNKED = "it uses chunked local attention"
    DUAL_CHUNK = "it uses dual chunk attention"
    ALIBI = "it uses ALiBi"
    SINKS = "it uses attention sinks"


_BECAUSE: Mapping[Role, Mapping[Feature, str]] = {
    "target": {
        Feature.HYBRID: "whose state needs every token",
        Feature.WINDOW: "and the window would count kept tokens instead of original positions",
        Feature.CHUNKED: "and the chunks would count kept tokens instead of original positions",
        Feature.DUAL_CHUNK: "and the chunks would count kept tokens instead of original positions",
        Feature.ALIBI: "whose biases count kept tokens instead of original positions",
    },
    "speculator": {
        Feature.HYBRID: "which give no scores",
        Feature.WINDOW: "and a row's scores would end with its window",
        Feature.CHUNKED: "and a row's scores would end with its chunk",
        Feature.DUAL_CHUNK: "whose several queries a token the scores do not know",
        Feature.ALIBI: "whose biases the scores would leave out",
        Feature.SINKS: "which the scores would leave out",
    },
}

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


def reason(feature: Feature, role: Role, size: int | None = None) -> str:
    """Return the clause that names a feature and what would go wrong.

    Parameters
    ----------
    size
        Tokens of a window or chunk, where known.
    """
    width = f" of {size} tokens" if size else ""
    because = _BECAUSE[role].get(feature)
    return f"{feature}{width}" + (f", {because}" if because else "")


def refuse(config: Mapping[str, Any], role: Role = "target") -> str | None:
    """Return why a model cannot have a role, or None where it can.

    Parameters
    ----------
    config
        The parsed ``config.json``, with the user's ``hf_overrides``.

    Returns
    -------
    str or None
        One clause, fit to stand after "cannot be a SpecPrefill target:".
    """
    return next((reason(feature, role, size) for feature, size in _features(config)), None)


def _features(config: Mapping[str, Any]) -> Iterator[tuple[Feature, int | None]]:
    """Yield what speaks against a model, with the size of its windows or chunks."""
    text = text_config(config)
    if config.get("is_encoder_decoder"):
        yield Feature.ENCODER_DECODER, None
    if text.get("kv_lora_rank"):
        yield Feature.MLA, None
    if _is_hybrid(text):
        yield Feature.HYBRID, None
    if _has_mrope(config) or _has_mrope(text):
        yield Feature.MROPE, None
    if text.get("dual_chunk_attention_config"):
        yield Feature.DUAL_CHUNK, None
    chunk = text.get("attention_chunk_size")
    if chunk or "chunked_attention" in (text.get("layer_types") or ()):
        yield Feature.CHUNKED, chunk
    has_window, window = _window(text)
    if has_window:
        yield Feature.WINDOW, window
    if _has_alibi(text):
        yield Feature.ALIBI, None


def _is_hybrid(text: Mapping[str, Any]) -> bool:
    kinds = {str(kind) for kind in text.get("layer_types") or ()}
    kinds |= {str(kind) for kind in text.get("layers_block_type") or ()}
    other = kinds - {"full_attention", "sliding_attention", "chunked_attention", "attention"}
    return (
        bool(other)
        or text.get("model_type") in _HYBRID_TYPES
        or any(text.get(key) for key in _HYBRID_KEYS)
    )


def _has_mrope(config: Mapping[str, Any]) -> bool:
    for name in ("rope_scaling", "rope_parameters"):
        rope = config.get(name)
        if isinstance(rope, Mapping):
            kind = rope.get("rope_type", rope.get("type"))
            if kind == "mrope" or "mrope_section" in rope:
                return True
    return False


def _window(text: Mapping[str, Any]) -> tuple[bool, int | None]:
    """Whether some layer has a window that a prompt can leave, and its size where given."""
    kinds = set(text.get("layer_types") or ())
    if "sliding_attention" in kinds:
        return True, text.get("sliding_window")
    if text.get("use_sliding_window") is False or (kinds and kinds == {"full_attention"}):
        return False, None
    if "sliding_window" not in text:
        return text.get("model_type") in _WINDOW_BY_DEFAULT, None
    window = text["sliding_window"]
    limit = position_range(text)
    if not window or (limit is not None and int(window) >= limit):
        return False, None  # no window, or one that no prompt can leave
    return True, window


def _has_alibi(text: Mapping[str, Any]) -> bool:
    attention = text.get("attn_config")
    nested = isinstance(attention, Mapping) and attention.get("alibi")
    return bool(text.get("alibi") or nested or text.get("model_type") in _ALIBI_TYPES)


def refused(model: str, role: Role, why: str) -> EngineRefusedError:
    """Return the one line about a model that cannot have a role."""
    return EngineRefusedError(
        f"{model} cannot be a SpecPrefill {role}: {why}; choose another {role}"
    )


def check_model(model: str, config: Mapping[str, Any], role: Role) -> None:
    """Raise where :func:`refuse` gives a reason.

    Raises
    ------
    EngineRefusedError
        One line with the model and the feature.
    """
    why = refuse(config, role)
    if why is not None:
        raise refused(model, role, why)


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
