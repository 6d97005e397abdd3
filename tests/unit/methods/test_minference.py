"""MInference's patterns and reference kernel on small tensors, and in a tiny model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import needle_prompt
from torch.nn.functional import scaled_dot_product_attention

from harness.engines.hf.model import forward, new_cache
from harness.errors import ConfigError, DataError, UnsupportedError
from harness.methods.arms import build_method
from harness.methods.base import MethodContext
from harness.methods.minference import MInference, fused
from harness.methods.minference.attend import refuse_parts
from harness.methods.minference.budget import within
from harness.methods.minference.chosen import Chosen
from harness.methods.minference.kernel import sparse_attention
from harness.methods.minference.lists import lists_of
from harness.methods.minference.patterns import RANKERS, Layer, published
from harness.methods.minference.published import read_patterns
from harness.methods.minference.strategy import MInferencePrefill
from harness.models.tokenizer import Tokenizer

SCALE = 0.5


def layer_of(length: int, *, block: int = 8, sink: int = 2, seed: int = 0) -> Layer:
    """A layer of two heads with random queries and keys."""
    draw = torch.Generator().manual_seed(seed)
    q, k = torch.randn(2, 2, length, 4, generator=draw)
    return Layer(q, k, SCALE, block, sink, last_queries=16)


def choose(layer: Layer, pattern: str, keep: float) -> Chosen:
    """What a pattern chooses within a budget."""
    return within(RANKERS[pattern](layer), keep, layer.block)


def seen_pairs(chosen: Chosen) -> torch.Tensor:
    """The pairs that a choice computes, one by one: bool [H, M, M]."""
    length = chosen.columns.shape[1]
    of_blocks = chosen.blocks.repeat_interleave(chosen.block, 1)
    of_blocks = of_blocks.repeat_interleave(chosen.block, 2)[:, :length, :length]
    return (of_blocks | chosen.columns[:, None, :]).tril()


def dense(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Causal attention as torch computes it."""
    return scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True, scale=SCALE)[0]


@pytest.mark.parametrize("pattern", RANKERS)
@pytest.mark.parametrize("length", [1, 7, 8, 61])
def test_every_block_is_dense_attention(pattern: str, length: int) -> None:
    """At keep 1 nothing is skipped, and the result is torch's."""
    layer = layer_of(length)
    chosen = choose(layer, pattern, 1.0)
    v = torch.randn(layer.k.shape, generator=torch.Generator().manual_seed(1))
    assert chosen.share() == 1.0
    out = sparse_attention((layer.q, layer.k, v), chosen, SCALE)
    torch.testing.assert_close(out, dense(layer.q, layer.k, v))


@settings(max_examples=40, deadline=None)
@given(
    pattern=st.sampled_from(sorted(RANKERS)),
    length=st.integers(1, 90),
    keep=st.sampled_from([0.05, 0.2, 0.5, 0.9]),
    seed=st.integers(0, 9),
)
def test_budget_and_what_must_be_seen(pattern: str, length: int, keep: float, seed: int) -> None:
    """Within the budget but for diagonal and sink; every query sees itself; nothing later."""
    layer = layer_of(length, seed=seed)
    chosen = choose(layer, pattern, keep)
    seen, rows = seen_pairs(chosen), torch.arange(length)
    own_block = rows[:, None] // layer.block == rows[None, :] // layer.block
    forced = (own_block | (rows < layer.sink)).tril()
    assert seen[:, forced].all()
    assert not chosen.blocks.triu(1).any()
    causal = length * (length + 1) // 2
    share = chosen.share()
    assert chosen.pairs().tolist() == seen.sum((1, 2)).tolist()
    assert share == pytest.approx(int(seen.sum()) / (layer.heads * causal))
    floor = int(forced.sum()) / causal
    assert share <= max(keep, floor) + (0.2 if pattern == "block_sparse" else 0.0) + 1e-6


@settings(max_examples=40, deadline=None)
@given(
    pattern=st.sampled_from(sorted(RANKERS)),
    length=st.integers(2, 70),
    keep=st.floats(0.05, 0.95),
    seed=st.integers(0, 9),
)
def test_the_budget_is_used_up(pattern: str, length: int, keep: float, seed: int) -> None:
    """The next rank would not fit, by a count of each pair."""
    ranks = RANKERS[pattern](layer_of(length, seed=seed))
    chosen = within(ranks, keep, 8)
    budget = keep * length * (length + 1) / 2 * (1 + 1e-9)
    for head in range(2):
        left = [
            of_head[~taken]
            for of_head, taken in zip(
                (ranks.columns[head], ranks.blocks[head].tril()),
                (chosen.columns[head], chosen.blocks[head]),
                strict=True,
            )
        ]
        rest = torch.cat([x[(x < 2**40) & (x > 0)] for x in left])
        if not len(rest):
            continue
        more = ranks.up_to(torch.full((2,), int(rest.min())), 8)
        assert seen_pairs(more)[head].sum() > budget


def test_skipped_columns_are_really_skipped() -> None:
    """Poison in a key that no block computes does not reach the output."""
    layer = layer_of(64)
    chosen = choose(layer, "a_shape", 0.3)
    assert chosen.share() < 0.5
    v = torch.ones_like(layer.k)
    skipped = ~seen_pairs(chosen)[:, -1].any(0)
    last = torch.zeros(64, dtype=torch.bool)
    last[-8:] = True
    k = layer.k.clone()
    k[:, skipped] = torch.nan
    out = sparse_attention((layer.q, k, v), chosen, SCALE)
    assert out[:, last].isfinite().all()


def test_vertical_slash_finds_a_column_and_a_diagonal() -> None:
    """A key that every query wants, and the key 24 before each query, rank before the rest."""
    length, block = 96, 8
    k = torch.zeros(1, length, 4)
    q = torch.zeros(1, length, 4)
    q[..., 0] = 8.0
    k[:, 40, 0] = 8.0
    layer = Layer(q, k, 1.0, block, sink=0, last_queries=16)
    assert seen_pairs(choose(layer, "vertical_slash", 0.25))[0, 48:, 40].all()
    angle = torch.arange(length) * 0.7
    turn = torch.stack([angle.cos(), angle.sin()], -1) * 9
    back = torch.stack([(angle + 24 * 0.7).cos(), (angle + 24 * 0.7).sin()], -1) * 9
    layer = Layer(turn[None], back[None], 1.0, block, sink=0, last_queries=16)
    rows = torch.arange(48, length)
    assert seen_pairs(choose(layer, "vertical_slash", 0.45))[0, rows, rows - 24].all()


def test_in_a_model_keep_one_is_dense_and_less_is_not(
    model: Any, tokenizer: Tokenizer, context: MethodContext
) -> None:
    """The whole prefill equals the model's own at keep 1; at 0.1 its logits differ."""
    prompt = needle_prompt(tokenizer, 30)
    length = len(prompt.token_ids)
    with torch.inference_mode():
        truth = forward(model, prompt.token_ids, range(length), new_cache(model))[-1]
        results = {}
        for keep in (1.0, 0.1):
            (prepared,) = MInference(keep=keep).prepare([prompt], context)
            results[keep] = MInferencePrefill()(model, prepared)
    assert (results[1.0].logits - truth).abs().max() < 1e-4
    assert (results[0.1].logits - truth).abs().max() > 1e-2
    receipt = results[0.1].receipt
    assert receipt is not None
    assert receipt.details["kernel"] == "reference kernel"
    assert 0.1 / 2 < receipt.keep_achieved < 0.5
    assert results[0.1].cache.get_seq_length() == length


def published_file(folder: Path, *, layers: int = 3, heads: int = 4) -> Path:
    """A pattern file in the authors' format, with every kind."""
    kinds = (
        ["vertical_and_slash", 30, 800, 0.9],
        ["vertical_and_slash", 3500, 100, 0.7],
        ["stream_llm", 8, 128, 0.8],
        ["block_sparse", 2, 0, 0.8],
    )
    path = folder / "patterns.json"
    path.write_text(json.dumps([{str(h): kinds[h] for h in range(heads)} for _ in range(layers)]))
    return path


def test_published_patterns_set_each_heads_columns(tmp_path: Path) -> None:
    """Sizes over the length are dense; a window and a few blocks are what they say."""
    draw = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 4, 1024, 4, generator=draw)
    layer = Layer(q, k, SCALE, 64, 0, 64)
    (heads, *_) = read_patterns(str(published_file(tmp_path)))
    chosen = published(layer, heads)
    seen = seen_pairs(chosen)
    of_head = chosen.pairs() / (1024 * 1025 / 2)
    assert chosen.pairs().tolist() == seen.sum((1, 2)).tolist()
    assert chosen.share() == pytest.approx(float(of_head.mean()))
    assert of_head[1] == 1.0  # 3,500 columns are more than there are
    rows, last = torch.arange(1024), seen[:, -1]
    assert seen[:, rows, rows].all()
    assert last[2].nonzero()[:, 0].tolist() == [*range(8), *range(1024 - 3 * 64, 1024)]
    assert last[3].sum() == 2 * 64
    assert last[0, :30].all()
    assert of_head[0] > of_head[2] > of_head[3]


def test_published_patterns_run_in_a_model(
    model: Any, tokenizer: Tokenizer, context: MethodContext, tmp_path: Path
) -> None:
    """Only the achieved share is in the receipt; a file for another model is refused."""
    prompt = needle_prompt(tokenizer, 20)
    for path, layers in ((tmp_path / "a", 3), (tmp_path / "b", 5)):
        path.mkdir()
        method = MInference(pattern_file=str(published_file(path, layers=layers)))
        (prepared,) = method.prepare([prompt], context)
        assert prepared.receipt.keep_requested is None
        if layers == 5:
            with pytest.raises(ConfigError, match="5 layers"):
                MInferencePrefill()(model, prepared)
            continue
        with torch.inference_mode():
            receipt = MInferencePrefill()(model, prepared).receipt
        assert receipt is not None
        assert 0 < receipt.keep_achieved <= 1
        assert receipt.details["pattern"] == "published"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[", "cannot read"),
        ("{}", "list"),
        ('[{"0": ["vertical", 1, 2, 0.5]}]', "layer 0, head 0"),
        ('[{"0": ["stream_llm", 1, 2, 0.5], "2": ["stream_llm", 1, 2, 0.5]}]', "head 1"),
        ('[{"0": ["stream_llm", -1, 2, 0.5]}]', "head 0"),
    ],
)
def test_damaged_pattern_files_are_refused(tmp_path: Path, text: str, word: str) -> None:
    """At once, with the place of the fault."""
    path = tmp_path / "p.json"
    path.write_text(text)
    with pytest.raises(DataError, match=word):
        build_method("minference", {"pattern_file": str(path)})


def documented(q, k, v, *lists, softmax_scale, causal):
    """What vLLM's kernel does, in its layout: [1, M, H, 128], masking the last two blocks only."""
    assert causal
    assert q.shape[3] == k.shape[3] == fused.HEAD
    counts, offsets, numbers, indexes = (x[0].tolist() for x in lists)
    length, heads = q.shape[1:3]
    group = heads // k.shape[2]
    out = torch.empty_like(q)
    for head in range(heads):
        for row, (count, number) in enumerate(zip(counts[head], numbers[head], strict=True)):
            starts = offsets[head][row][:count]
            single = indexes[head][row][:number]
            assert starts == sorted(set(starts)), "ascending, none twice"
            assert single == sorted(set(single)), "ascending, none twice"
            whole = [key for start in starts for key in range(start, start + 64)]
            assert not set(whole) & set(single), "no key is computed twice"
            keys = torch.tensor([key for key in whole if key < length] + single)
            queries = torch.arange(row * 64, min(length, row * 64 + 64))
            logits = q[0, queries, head] @ k[0, keys, head // group].T * softmax_scale
            masked = torch.zeros(len(keys), dtype=torch.bool)
            masked[max(0, (count - 2) * 64) : len(keys) - number] = True
            future = (keys > queries[:, None]) & masked
            weights = logits.masked_fill(future, -torch.inf).softmax(-1)
            out[0, queries, head] = weights @ v[0, keys, head // group]
    return out


@pytest.mark.parametrize("entries", [2**27, 1])
@pytest.mark.parametrize("length", [1, 64, 65, 500])
@pytest.mark.parametrize("pattern", [*RANKERS, "published"])
def test_the_gpu_kernel_gets_its_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str, length: int, entries: int
) -> None:
    """A kernel that does what vLLM's does gives the reference's output, heads in parts or whole."""
    draw = torch.Generator().manual_seed(length)
    q = torch.randn(4, length, 16, generator=draw)
    k, v = torch.randn(2, 2, length, 16, generator=draw)
    layer = Layer(q, k.repeat_interleave(2, 0), 0.25, fused.BLOCK, 4, 64)
    if pattern == "published":
        chosen = published(layer, read_patterns(str(published_file(tmp_path)))[0])
    else:
        chosen = choose(layer, pattern, 0.4)
    monkeypatch.setattr(fused, "kernel", lambda: documented)
    monkeypatch.setattr(fused, "_ENTRIES", entries)
    found = fused.fused_attention((q, k, v), chosen, 0.25)
    torch.testing.assert_close(found, sparse_attention((q, k, v), chosen, 0.25))
    assert {x.dtype for x in lists_of(chosen)} == {torch.int32}


def test_the_gpu_kernel_is_not_for_every_layer() -> None:
    """Not on a CPU, in float32, with wide heads or other blocks: the reference kernel is named."""
    assert not fused.fits(torch.zeros(2, 8, 64, dtype=torch.bfloat16), fused.BLOCK)


def test_attentions_with_other_parts_are_refused(
    model: Any, tokenizer: Tokenizer, context: MethodContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sliding window would be wrong without a word, so the arm says what it lacks."""
    (prepared,) = MInference(keep=0.5).prepare([needle_prompt(tokenizer, 5)], context)
    attention = model.base_model.layers[0].self_attn
    own = type(attention).forward
    monkeypatch.setattr(
        type(attention), "forward", lambda self, *a, **k: own(self, *a, sliding_window=64, **k)
    )
    with pytest.raises(UnsupportedError, match="sliding_window"), torch.inference_mode():
        MInferencePrefill()(model, prepared)


@pytest.mark.parametrize("value", [5.0, torch.ones(4), torch.zeros(4), 64])
def test_any_part_that_is_there_is_refused(value: object) -> None:
    """A number other than 0, or a tensor, such as ALiBi's slopes a head; None and 0 are no part."""
    refuse_parts({"logits_soft_cap": 0, "sinks": None, "softcap": 0.0})
    with pytest.raises(UnsupportedError, match="alibi_slopes"):
        refuse_parts({"sinks": None, "alibi_slopes": value})
