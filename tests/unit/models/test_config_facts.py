"""What is read of a model before an engine starts."""

from __future__ import annotations

import json

import pytest

from harness.errors import ModelError
from harness.models.config_facts import (
    bos_token_id,
    kv_bytes_per_token,
    longrope_threshold,
    model_digest,
    overridden,
    position_range,
    read_config,
)

CONFIG = {
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "hidden_size": 576,
    "num_hidden_layers": 30,
    "max_position_embeddings": 8192,
    "bos_token_id": 1,
}


def test_cache_size_of_a_token():
    """30 layers × keys and values × 3 heads × 64 × 2 bytes; ranks share the heads."""
    assert kv_bytes_per_token(CONFIG, "bfloat16") == 30 * 2 * 3 * 64 * 2
    assert kv_bytes_per_token(CONFIG, "float32", tensor_parallel=3) == 30 * 2 * 1 * 64 * 4


def test_sizes_that_are_not_there_are_named():
    """A configuration of another kind is one line, not a KeyError."""
    with pytest.raises(ModelError, match="mamba model has no 'num_attention_heads'"):
        kv_bytes_per_token({"model_type": "mamba", "state_size": 16}, "bfloat16")


FAMILIES = {
    "gpt2": ({"n_head": 12, "n_embd": 768, "n_layer": 6}, 12),
    "gptj": ({"n_head": 16, "n_embd": 4096, "n_layer": 28}, 16),
    "gpt_bigcode": ({"n_head": 16, "n_embd": 2048, "n_layer": 24, "multi_query": True}, 1),
    "bloom": ({"n_head": 8, "hidden_size": 64, "n_layer": 2}, 8),
    "mpt": ({"n_heads": 32, "d_model": 4096, "n_layers": 32}, 32),
    "dbrx": ({"n_heads": 48, "d_model": 6144, "n_layers": 40, "attn_config": {"kv_n_heads": 8}}, 8),
    "opt": ({"num_attention_heads": 12, "hidden_size": 768, "num_hidden_layers": 12}, 12),
    "falcon": (
        {
            **{"num_attention_heads": 71, "hidden_size": 4544, "num_hidden_layers": 32},
            **{"multi_query": True, "num_kv_heads": 71},
        },
        1,
    ),
}


@pytest.mark.parametrize("kind", FAMILIES)
def test_older_families_have_other_names(kind):
    """The sizes that transformers itself reads from the same file, with its own head count."""
    from transformers import AutoConfig

    raw, kv_heads = FAMILIES[kind]
    read = AutoConfig.for_model(kind, **raw)
    head = read.hidden_size // read.num_attention_heads
    wanted = read.num_hidden_layers * 2 * kv_heads * head * 2
    assert kv_bytes_per_token({"model_type": kind, **raw}, "float16") == wanted


def test_grouped_falcon_heads():
    """Its newer models name their key heads."""
    sizes = {"num_attention_heads": 128, "hidden_size": 8192, "num_hidden_layers": 60}
    newer = {"model_type": "falcon", "new_decoder_architecture": True, "num_kv_heads": 8}
    assert kv_bytes_per_token({**sizes, **newer}, "bfloat16") == 60 * 2 * 8 * 64 * 2


@pytest.mark.parametrize(
    ("rope", "threshold"),
    [
        ({"rope_scaling": {"type": "longrope"}, "original_max_position_embeddings": 4096}, 4096),
        ({"rope_scaling": {"type": "su"}, "original_max_position_embeddings": 4096}, 4096),
        (
            {
                "rope_parameters": {
                    "rope_type": "longrope",
                    "original_max_position_embeddings": 256,
                }
            },
            256,
        ),
        ({"rope_parameters": {"rope_type": "yarn", "original_max_position_embeddings": 9}}, None),
        ({"rope_scaling": None}, None),
        ({}, None),
    ],
)
def test_longrope_s_threshold(rope, threshold):
    """Where long factors begin, under its names old and new; other kinds of rope have none."""
    assert longrope_threshold({**CONFIG, **rope}) == threshold
    assert longrope_threshold({"text_config": {**CONFIG, **rope}}) == threshold


def test_overrides_change_a_configuration_as_vllm_does():
    """Entries replace, nested configurations are entered; a function is vLLM's to apply."""
    nested = {"text_config": CONFIG, "model_type": "made"}
    changed = overridden(nested, {"text_config": {"sliding_window": 64}, "model_type": "other"})
    assert changed["text_config"] == {**CONFIG, "sliding_window": 64}
    assert changed["model_type"] == "other"
    assert nested == {"text_config": CONFIG, "model_type": "made"}
    assert overridden(CONFIG, None) == CONFIG
    assert overridden(CONFIG, lambda config: config) == CONFIG


def test_nested_text_configuration_is_found():
    """A multimodal model keeps its language model's sizes one level down."""
    nested = {"text_config": CONFIG}
    assert position_range(nested) == 8192
    assert bos_token_id(nested) == 1
    assert position_range({}) is None


@pytest.mark.parametrize("content", [None, "not json"])
def test_unreadable_folder_is_named(tmp_path, content):
    """No config.json, or a broken one, is one line with the folder."""
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    with pytest.raises(ModelError, match=str(tmp_path)):
        read_config(str(tmp_path))


def test_missing_folder_is_no_hub_name(tmp_path):
    """A path that does not exist is not looked up on a hub."""
    with pytest.raises(ModelError, match="does not exist"):
        read_config(str(tmp_path / "absent"))


def test_digest_follows_the_content(tmp_path):
    """Another byte of weights is another model; a name that is nowhere is only a name."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "model.safetensors").write_bytes(b"12")
    first = model_digest(str(tmp_path))
    (tmp_path / "model.safetensors").write_bytes(b"123")
    assert model_digest(str(tmp_path)) != first
    assert model_digest("nobody/nothing") == "name:nobody/nothing"
