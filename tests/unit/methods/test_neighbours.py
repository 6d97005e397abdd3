"""SnapKV's votes and GemFilter's filter, in a tiny model."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tiny import needle_prompt

from harness.engines.hf.attention import attention_replaced
from harness.engines.hf.model import forward, new_cache
from harness.errors import UnsupportedError
from harness.methods.base import MethodContext
from harness.methods.gemfilter.method import GemFilter
from harness.methods.gemfilter.strategy import GemFilterPrefill, filter_scores
from harness.methods.snapkv.method import SnapKV
from harness.methods.snapkv.strategy import SnapKVPrefill, voted
from harness.models.tokenizer import Tokenizer


def attentions(model: Any, token_ids: tuple[int, ...]) -> list[torch.Tensor]:
    """Attention of every layer as transformers' eager code computes it: [Hq, M, M] each."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        with torch.inference_mode():
            out = model(torch.tensor([token_ids]), output_attentions=True)
    finally:
        model.set_attn_implementation(before)
    return [layer[0] for layer in out.attentions]


def test_filter_scores_are_the_models_attention(model: Any, tokenizer: Tokenizer) -> None:
    """The last token's eager attention in the filter layer, summed over heads."""
    ids = needle_prompt(tokenizer, 12).token_ids
    with torch.inference_mode():
        scores = filter_scores(model, ids, layers=2, kernel=1)
    truth = attentions(model, ids)[1][:, -1].sum(0)
    torch.testing.assert_close(scores, truth, atol=1e-5, rtol=1e-4)


def test_later_layers_do_not_run(model: Any, tokenizer: Tokenizer) -> None:
    """The filter pass stops at its layer, and leaves the model as it was."""
    ran: list[int] = []
    hooks = [
        layer.register_forward_hook(lambda *_, i=i: ran.append(i))
        for i, layer in enumerate(model.model.layers)
    ]
    before = model.config._attn_implementation
    with torch.inference_mode():
        filter_scores(model, needle_prompt(tokenizer, 5).token_ids, layers=2, kernel=5)
    for hook in hooks:
        hook.remove()
    assert ran == [0]  # layer 1 was left at its attention
    assert model.config._attn_implementation == before


@pytest.mark.parametrize("positions", ["original", "compacted"])
def test_gemfilter_prefills_what_it_kept(
    model: Any, tokenizer: Tokenizer, context: MethodContext, positions: str
) -> None:
    """Its logits are a plain prefill's of the kept tokens at their positions."""
    prompt = needle_prompt(tokenizer, 20)
    (prepared,) = GemFilter(keep=0.2, positions=positions).prepare([prompt], context)
    with torch.inference_mode():
        result = GemFilterPrefill()(model, prepared)
        assert result.receipt is not None
        kept = [i for a, b in result.receipt.kept_spans for i in range(a, b)]
        where = kept if positions == "original" else range(len(kept))
        tokens = [prompt.token_ids[i] for i in kept]
        truth = forward(model, tokens, tuple(where), new_cache(model))[-1]
    torch.testing.assert_close(result.logits, truth)
    length = len(prompt.token_ids)
    assert result.next_position == (length if positions == "original" else len(kept))
    assert result.receipt.cost.flops_share > 1 / 3  # one of three layers ran on every token


def test_votes_are_the_windows_attention(model: Any, tokenizer: Tokenizer) -> None:
    """The kept entries of a key head are those its query heads' last rows attend to most."""
    ids = needle_prompt(tokenizer, 12).token_ids
    (eager, *_), window, budget = attentions(model, ids), 8, 40
    found: list[torch.Tensor] = []

    def attend(module: Any, q: Any, k: Any, v: Any, mask: Any, *, scaling: float, **_: Any) -> Any:
        if module.layer_idx == 0:
            found.append(voted(q[0], k[0], scaling, budget=budget, window=window, kernel=1))
        from harness.engines.hf.attention import dense_attention

        return dense_attention(module, q, k, v, scaling)

    with torch.inference_mode(), attention_replaced(model, attend):
        forward(model, ids, range(len(ids)), new_cache(model))
    votes = eager[:, -window:, :-window].sum(1).unflatten(0, (2, 2)).mean(1)
    for head in range(2):
        truth = set(votes[head].topk(budget - window).indices.tolist())
        kept = set(found[0][head].tolist())
        assert set(range(len(ids) - window, len(ids))) <= kept
        assert len(kept - set(range(len(ids) - window, len(ids))) - truth) <= 1  # a rounding tie


def test_snapkv_prunes_after_a_full_prefill(
    model: Any, tokenizer: Tokenizer, context: MethodContext
) -> None:
    """The first token is full prefill's; the cache holds the budget; decoding goes on at M."""
    prompt = needle_prompt(tokenizer, 20)
    length = len(prompt.token_ids)
    (prepared,) = SnapKV(keep=0.2).prepare([prompt], context)
    with torch.inference_mode():
        result = SnapKVPrefill()(model, prepared)
        truth = forward(model, prompt.token_ids, range(length), new_cache(model))[-1]
        torch.testing.assert_close(result.logits, truth, atol=1e-4, rtol=1e-4)
        assert result.cache.get_seq_length() == prepared.receipt.cost.kv_tokens < length
        assert result.next_position == length
        forward(model, [5], (length,), result.cache)
    assert not SnapKV.improves_ttft


def test_replaced_attention_is_undone_by_an_exception(model: Any) -> None:
    """Configuration and registry are as before, also when the pass failed."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    names, before = sorted(ALL_ATTENTION_FUNCTIONS), model.config._attn_implementation

    def fails(*_: Any, **__: Any) -> Any:
        raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"), attention_replaced(model, fails):
        forward(model, [1, 2], range(2), new_cache(model))
    assert sorted(ALL_ATTENTION_FUNCTIONS) == names
    assert model.config._attn_implementation == before


def test_a_filter_layer_beyond_the_model_is_unsupported(
    model: Any, tokenizer: Tokenizer, context: MethodContext
) -> None:
    """Nothing is clamped in silence; the reason has both numbers."""
    (prepared,) = GemFilter(filter_layer=99).prepare([needle_prompt(tokenizer, 5)], context)
    with pytest.raises(UnsupportedError, match="filter_layer is 99, the target has 3 layers"):
        GemFilterPrefill()(model, prepared)
