"""Depth padding: exactly the same logits, and real layers where relative depth expects them."""

from __future__ import annotations

import json

import pytest

from harness.errors import ConfigError
from harness.models.padded import build_padded, prepare_padded, real_offset


@pytest.fixture
def tiny(tmp_path):
    """Return a random two-layer Llama folder."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        tie_word_embeddings=True,
    )
    folder = tmp_path / "tiny"
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    (folder / "tokenizer.json").write_text("{}")
    return folder


@pytest.mark.parametrize("factor", [2, 3, 4])
def test_logits_are_bit_identical(tiny, tmp_path, factor):
    """Identity blocks add exactly zero, in bfloat16 too."""
    import torch
    from transformers import AutoModelForCausalLM

    padded = tmp_path / "padded"
    padded.mkdir()
    build_padded(tiny, factor, padded)
    assert json.loads((padded / "config.json").read_text())["num_hidden_layers"] == 3 * factor
    ids = torch.arange(40)[None]
    logits = [
        AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)(ids).logits
        for folder in (tiny, padded)
    ]
    assert torch.equal(*logits)


def test_padding_does_the_work(tiny, tmp_path):
    """Added blocks carry real weights before their zero outputs: the compute is really there."""
    from safetensors.torch import load_file

    padded = tmp_path / "padded"
    padded.mkdir()
    build_padded(tiny, 4, padded)
    weights = load_file(padded / "model.safetensors")
    real = real_offset(4)
    for layer in range(12):
        attention, mlp = (
            weights[f"model.layers.{layer}.{name}.weight"]
            for name in ("self_attn.o_proj", "mlp.down_proj")
        )
        assert bool(attention.any()) == bool(mlp.any()) == (layer % 4 == real)
        assert weights[f"model.layers.{layer}.self_attn.q_proj.weight"].any()


def test_tokenizer_files_are_links(tiny, tmp_path):
    """The tokenizer takes no further disk."""
    padded = tmp_path / "padded"
    padded.mkdir()
    build_padded(tiny, 2, padded)
    assert (padded / "tokenizer.json").samefile(tiny / "tokenizer.json")


@pytest.mark.parametrize("layers", [2, 12, 24, 30, 32, 80])
@pytest.mark.parametrize("factor", [2, 3, 4])
def test_relative_depth_pairs_real_layers_with_their_origin(layers, factor):
    """round(l (Ld−1)/(Lv−1)) sends every real layer to the layer it is a copy of."""
    for real in range(layers):
        layer = real * factor + real_offset(factor)
        mapped = int(layer * (layers - 1) / (layers * factor - 1) + 0.5)
        assert mapped == real


def test_factor_below_two_is_refused():
    """Padding to the same depth is a configuration error."""
    with pytest.raises(ConfigError, match="at least 2"):
        prepare_padded(1)
