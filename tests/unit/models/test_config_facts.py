"""What is read of a model before an engine starts."""

from __future__ import annotations

import json

import pytest

from harness.errors import ModelError
from harness.models.config_facts import (
    bos_token_id,
    kv_bytes_per_token,
    model_digest,
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
    with pytest.raises(ModelError, match="gpt2 model has no 'num_attention_heads'"):
        kv_bytes_per_token({"model_type": "gpt2", "n_head": 12}, "bfloat16")


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
