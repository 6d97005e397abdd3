"""Which targets are refused, told from config.json alone."""

from __future__ import annotations

import pytest

from harness.engines.vllm.refusals import check_options, check_target, refuse
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
        ({"model_type": "llama4_text", "attention_chunk_size": 8192}, "sliding-window"),
        ({"rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}}, "M-RoPE"),
        ({"text_config": {"rope_parameters": {"mrope_section": [16, 24, 24]}}}, "M-RoPE"),
        ({"model_type": "deepseek_v3", "kv_lora_rank": 512}, "MLA"),
        ({"model_type": "jamba", "attn_layer_period": 8}, "hybrid"),
        ({"layer_types": ["linear_attention", "full_attention"]}, "hybrid"),
        ({"model_type": "bloom"}, "ALiBi"),
        ({"model_type": "mpt", "attn_config": {"alibi": True}}, "ALiBi"),
        ({"model_type": "t5", "is_encoder_decoder": True}, "encoder-decoder"),
    ],
)
def test_refused_by_feature(config, names):
    """Each feature that reads positions otherwise is named in the reason."""
    reason = refuse({**LLAMA, **config})
    assert reason is not None
    assert names in reason


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
def test_full_attention_is_accepted(config):
    """A window that is off, absent or never reached is no reason."""
    assert refuse({**LLAMA, **config}) is None


def test_the_error_is_one_line_with_model_and_feature():
    """What the command prints names both."""
    with pytest.raises(EngineRefusedError, match=r"^MODEL cannot be .* sliding-window .* 256 "):
        check_target("MODEL", {"model_type": "mistral", "sliding_window": 256})


@pytest.mark.parametrize("name", ["speculative_config", "spec_method", "spec_model"])
def test_speculative_decoding_is_refused_by_name(name):
    """Every way to ask vLLM for it is refused; leaving it out is not."""
    with pytest.raises(EngineRefusedError, match="speculative decoding"):
        check_options({name: {"method": "ngram"}})
    check_options({name: None, "dtype": "bfloat16"})
