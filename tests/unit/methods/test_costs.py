"""Costs of a prefill, against sums made by hand."""

from __future__ import annotations

import pytest

from harness.methods.costs import ModelShape, causal_pairs, prefill_cost

CONFIG = {
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_hidden_layers": 3,
}


def test_flops_by_hand() -> None:
    """Two FLOPs a weight and token, four a pair, head and dimension."""
    shape = ModelShape.from_config(CONFIG)
    assert shape is not None
    weights = 3 * (8 * 8 + 8 * 4 + 8 * 4 + 8 * 8 + 3 * 8 * 16)
    assert shape.flops(10, 55) == 2 * 10 * weights + 4 * 3 * 4 * 2 * 55


def test_full_prefill_is_one() -> None:
    """Every share of full prefill is exactly 1."""
    cost = prefill_cost(100, 100, ModelShape.from_config(CONFIG))
    assert (cost.attention_share, cost.flops_share, cost.kv_tokens) == (1.0, 1.0, 100)


def test_pairs_fall_with_the_square() -> None:
    """A tenth of the tokens has about a hundredth of the pairs."""
    cost = prefill_cost(1000, 100, None)
    assert cost.attention_share == causal_pairs(100) / causal_pairs(1000)
    assert cost.attention_share == pytest.approx(0.01, rel=0.02)
    assert cost.flops_share is None


@pytest.mark.parametrize(
    "config",
    [{**CONFIG, "num_experts": 8}, {**CONFIG, "kv_lora_rank": 64}, {"hidden_size": 8}],
    ids=["experts", "latent attention", "unknown"],
)
def test_unknown_architectures_have_no_share(config: dict) -> None:
    """What the formula does not describe is None, not a guess."""
    assert ModelShape.from_config(config) is None


def test_an_empty_prompt_costs_nothing_known() -> None:
    """There is no share of nothing."""
    assert prefill_cost(0, 0, ModelShape.from_config(CONFIG)).attention_share is None
