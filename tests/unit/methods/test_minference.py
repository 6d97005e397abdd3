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

from harness.arms import build_method
from harness.engines.hf_model import forward, new_cache
from harness.errors import ConfigError, DataError
from harness.methods.base import MethodContext
from harness.methods.minference import MInference, fused
from harness.methods.minference.kernel import sparse_attention
from harness.methods.minference.patterns import (
    RANKERS,
    Layer,
    block_sparse_places,
    columns_within,
    published_choices,
    published_columns,
)
from harness.methods.minference.published import read_patterns
from harness.methods.minference.strategy import MInferencePrefill
from harness.tokenizer import Tokenizer

SCALE = 0.5


def layer_of(length: int, *, block: int = 8, sink: int = 2, seed: int = 0) -> Layer:
    """A layer of two heads with random queries and keys."""
    draw = torch.Generator().manual_seed(seed)
    q, k = torch.randn(2, 2, length, 4, generator=draw)
    return Layer(q, k, SCALE, block, sink, last_queries=16)


def dense(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Causal attention as torch computes it."""
    return scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True, scale=SCALE)[0]


@pytest.mark.parametrize("pattern", RANKERS)
@pytest.mark.parametrize("length", [1, 7, 8, 61])
def test_every_block_is_dense_attention(pattern: str, length: int) -> None:
    """At keep 1 nothing is skipped, and the result is torch's."""
    layer = layer_of(length)
    columns, share = columns_within(layer, pattern, 1.0)
    v = torch.randn(layer.k.shape, generator=torch.Generator().manual_seed(1))
    assert share == 1.0
    out = sparse_attention((layer.q, layer.k, v), columns, layer.block, SCALE)
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
    columns, share = columns_within(layer, pattern, keep)
    pairs = layer.pairs()
    rows = torch.arange(length)
    seen = columns[:, rows // layer.block, :]
    assert seen[:, rows, rows].all()
    assert seen[:, :, : layer.sink].logical_or(pairs[rows // layer.block, : layer.sink] == 0).all()
    assert not columns[:, pairs == 0].any()
    forced = torch.zeros_like(columns[0])
    forced[:, : layer.sink] = True
    for index in range(layer.blocks):
        forced[index, index * layer.block : (index + 1) * layer.block] = True
    floor = (forced * pairs).sum() / pairs.sum()
    exact = (columns * pairs).sum() / (layer.heads * pairs.sum())
    assert share == pytest.approx(float(exact))
    assert share <= max(keep, float(floor)) + (0.2 if pattern == "block_sparse" else 0.0) + 1e-6


def test_skipped_columns_are_really_skipped() -> None:
    """Poison in a key that no block computes does not reach the output."""
    layer = layer_of(64)
    columns, share = columns_within(layer, "a_shape", 0.3)
    assert share < 0.5
    v = torch.ones_like(layer.k)
    skipped = ~columns[:, -1].any(0)
    last = torch.zeros(64, dtype=torch.bool)
    last[-8:] = True
    k = layer.k.clone()
    k[:, skipped] = torch.nan
    out = sparse_attention((layer.q, k, v), columns, layer.block, SCALE)
    assert out[:, last].isfinite().all()


def test_vertical_slash_finds_a_column_and_a_diagonal() -> None:
    """A key that every query wants, and the key 24 before each query, rank before the rest."""
    length, block = 96, 8
    k = torch.zeros(1, length, 4)
    q = torch.zeros(1, length, 4)
    q[..., 0] = 8.0
    k[:, 40, 0] = 8.0
    layer = Layer(q, k, 1.0, block, sink=0, last_queries=16)
    columns, _ = columns_within(layer, "vertical_slash", 0.25)
    assert columns[0, 6:, 40].all()
    angle = torch.arange(length) * 0.7
    turn = torch.stack([angle.cos(), angle.sin()], -1) * 9
    back = torch.stack([(angle + 24 * 0.7).cos(), (angle + 24 * 0.7).sin()], -1) * 9
    layer = Layer(turn[None], back[None], 1.0, block, sink=0, last_queries=16)
    columns, _ = columns_within(layer, "vertical_slash", 0.45)
    rows = torch.arange(48, length)
    assert columns[0, rows // block, rows - 24].all()


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
    assert receipt.details["latency"] == "reference kernel"
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
    columns, share = published_columns(layer, published_choices(layer, heads))
    pairs = layer.pairs()
    of_head = (columns * pairs).sum((1, 2)) / pairs.sum()
    assert share == pytest.approx(float(of_head.mean()))
    assert of_head[1] == 1.0  # 3,500 columns are more than there are
    rows, last = torch.arange(1024), columns[:, -1]
    assert columns[:, rows // 64, rows].all()
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


def masked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    """Causal attention of [1, 1, M, d] tensors to the pairs that ``seen`` allows."""
    causal = torch.ones_like(seen).tril()
    return scaled_dot_product_attention(q, k, v, attn_mask=seen & causal)


def test_the_authors_kernels_get_each_heads_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels that do what the package documents give the reference's output, head by head."""
    draw = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, 4, 1000, 16, generator=draw)
    layer = Layer(q, k, 16**-0.5, 64, 0, 64)
    choices = published_choices(layer, read_patterns(str(published_file(tmp_path)))[0])
    row = torch.arange(1000)

    def lines(q, k, v, columns, offsets):
        assert columns.shape[:2] == offsets.shape[:2] == (1, 1)
        seen = torch.zeros(1000, 1000, dtype=torch.bool)
        seen[:, columns[0, 0]] = True
        apart = row[:, None] // 64 - row[None, :] // 64
        for crossed in {(o + shift) // 64 for o in offsets[0, 0].tolist() for shift in (0, 63)}:
            seen |= apart == crossed
        return masked(q, k, v, seen)

    def blocks(q, k, v, top_k):
        places = block_sparse_places(layer)[3] < top_k
        return masked(q, k, v, places[row // 64][:, row // 64])

    monkeypatch.setattr(fused, "kernels", lambda: (lines, blocks))
    columns, _ = published_columns(layer, choices)
    expected = sparse_attention((q, k, v), columns, 64, layer.scale)
    torch.testing.assert_close(fused.fused_attention((q, k, v), choices), expected)
    assert not fused.fits(layer)  # no GPU, and float32
