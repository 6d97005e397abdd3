"""Which models are refused in which role, told from config.json alone."""

from __future__ import annotations

import pytest

from harness.engines.vllm.refusals import check_model, check_options, refuse
from harness.errors import EngineRefusedError

LLAMA = {
    "model_type": "llama",
    "max_position_embeddings": 8192,
    "num_attention_heads": 9,
    "rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5},
}


@pytest.mark.parametrize(
    ("config", "names"),
    [
        ({"model_type": "mistral", "sliding_window": 256}, "sliding-window attention of 256"),
        ({"model_type": "mistral"}, "sliding-window"),
        ({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text"}}, "sliding-window"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "sliding-window"),
        (
            {"model_type": "llama4_text", "attention_chunk_size": 8192},
            "chunked local attention of 8192 tokens",
        ),
        ({"layer_types": ["full_attention", "chunked_attention"]}, "chunked local attention"),
        ({"dual_chunk_attention_config": {"chunk_size": 262144}}, "dual chunk"),
        ({"rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}}, "M-RoPE"),
        ({"text_config": {"rope_parameters": {"mrope_section": [16, 24, 24]}}}, "M-RoPE"),
        ({"model_type": "deepseek_v3", "kv_lora_rank": 512}, "MLA"),
        ({"model_type": "jamba", "attn_layer_period": 8}, "hybrid"),
        ({"layer_types": ["linear_attention", "full_attention"]}, "hybrid"),
        ({"model_type": "bloom"}, "ALiBi"),
        ({"model_type": "mpt", "attn_config": {"alibi": True}}, "ALiBi"),
        ({"model_type": "falcon", "alibi": True}, "ALiBi"),
        ({"model_type": "t5", "is_encoder_decoder": True}, "encoder-decoder"),
    ],
)
@pytest.mark.parametrize("role", ["target", "speculator"])
def test_refused_by_feature(config, names, role):
    """What reads positions otherwise, or is not where scores are taken from, is named."""
    reason = refuse({**LLAMA, **config}, role)
    assert reason is not None
    assert names in reason


def test_each_role_has_its_own_because():
    """A target's window counts kept tokens; a speculator's cuts its scores off."""
    window = {**LLAMA, "model_type": "mistral", "sliding_window": 256}
    assert "kept tokens" in (refuse(window, "target") or "")
    assert "scores would end" in (refuse(window, "speculator") or "")


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"model_type": "mistral", "sliding_window": None},
        {"model_type": "qwen2", "sliding_window": 32768, "use_sliding_window": False},
        {"model_type": "phi3", "sliding_window": 262144, "max_position_embeddings": 131072},
        {"model_type": "qwen3", "layer_types": ["full_attention"] * 4, "sliding_window": None},
        {"rope_scaling": None, "sliding_window": 0},
    ],
    ids=["llama", "mistral-full", "qwen2-off", "never-binding", "all-full", "nulls"],
)
@pytest.mark.parametrize("role", ["target", "speculator"])
def test_full_attention_is_accepted(config, role):
    """A window that is off, absent or never reached is no reason."""
    assert refuse({**LLAMA, **config}, role) is None


def test_the_error_is_one_line_with_model_and_feature():
    """What the command prints names both."""
    with pytest.raises(EngineRefusedError, match=r"^MODEL cannot be .* sliding-window .* 256 "):
        check_model("MODEL", {"model_type": "mistral", "sliding_window": 256}, "target")


@pytest.mark.parametrize("name", ["speculative_config", "spec_method", "spec_model"])
def test_speculative_decoding_is_refused_by_name(name):
    """Every way to ask vLLM for it is refused; leaving it out is not."""
    with pytest.raises(EngineRefusedError, match="speculative decoding"):
        check_options({name: {"method": "ngram"}})
    check_options({name: None, "dtype": "bfloat16"})
