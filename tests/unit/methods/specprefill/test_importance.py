"""Importance equals its definition, written out slowly."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.engines.scorer import ScoringConfig
from harness.methods.specprefill import importance
from harness.methods.specprefill.importance import (
    attention_logits,
    layer_importance,
    pool,
    row_importance,
)


def draw(seed, *shape):
    """Random normal float32 tensor."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def slow_pool(p, kernel, edges):
    """Average over the neighbours inside the prompt, by the definition."""
    out = np.zeros_like(p)
    half = kernel // 2
    for m in range(len(p)):
        part = p[max(0, m - half) : m + half + 1]
        out[m] = part.sum() / (kernel if edges == "padded" else len(part))
    return out


def slow_importance(q, k, ahead, *, scale, softcap, config):
    """Scoring 2–4 of ALGORITHM.md for one layer, in float64 loops."""
    q, k, ahead = (x.double().numpy() for x in (q, k, ahead))
    rows, heads, _ = q.shape
    group = heads // k.shape[1]
    out = np.zeros((rows, len(k)))
    cap = (lambda x: softcap * np.tanh(x / softcap)) if softcap else (lambda x: x)
    for n in range(rows):
        for h in range(heads):
            prompt = np.exp(cap(k[:, h // group] @ q[n, h] * scale))
            seen = np.exp(cap(ahead[:n, h // group] @ q[n, h] * scale))
            total = prompt.sum() + (seen.sum() if config.normalize == "visible" else 0)
            p = prompt / total
            if config.pool_kernel:
                p = slow_pool(p, config.pool_kernel, config.pool_edges)
            out[n] = np.maximum(out[n], p)
    return out


@pytest.mark.parametrize("normalize", ["prompt", "visible"])
@pytest.mark.parametrize("softcap", [None, 5.0])
@pytest.mark.parametrize(("kernel", "edges"), [(0, "padded"), (13, "padded"), (5, "clipped")])
@pytest.mark.parametrize(("heads", "key_heads"), [(6, 2), (4, 4), (3, 1)])
def test_layer_importance_is_its_definition(*, normalize, softcap, kernel, edges, heads, key_heads):
    """Grouped heads, soft cap, both softmaxes and both pool edges agree with slow loops."""
    config = ScoringConfig(pool_kernel=kernel, pool_edges=edges, normalize=normalize)
    q, k, ahead = draw(0, 4, heads, 8), draw(1, 37, key_heads, 8), draw(2, 3, key_heads, 8)
    got = layer_importance(q, k, 0.7, config, softcap=softcap, ahead_keys=ahead)
    want = slow_importance(q, k, ahead, scale=0.7, softcap=softcap, config=config)
    assert got.dtype == torch.float32
    np.testing.assert_allclose(got.numpy(), want, rtol=2e-5, atol=1e-7)


def test_blocks_change_nothing(monkeypatch):
    """Memory is bounded by working in blocks of heads, with the same result."""
    q, k, ahead = draw(3, 3, 8, 4), draw(4, 50, 4, 4), draw(5, 2, 4, 4)
    config = ScoringConfig(normalize="visible")
    whole = layer_importance(q, k, 0.5, config, ahead_keys=ahead)
    monkeypatch.setattr(importance, "BLOCK_ELEMENTS", 1)
    blocked = layer_importance(q, k, 0.5, config, ahead_keys=ahead)
    torch.testing.assert_close(blocked, whole, rtol=1e-6, atol=1e-9)


def test_float32_from_the_product_on():
    """bfloat16 queries and keys are widened before the product, not after."""
    q, k = draw(6, 1, 2, 16).bfloat16(), draw(7, 20, 2, 16).bfloat16()
    got = attention_logits(q, k, 0.25)
    want = torch.einsum("nhd,mhd->hnm", q.float(), k.float()) * 0.25
    torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-6)


def test_small_probabilities_survive_the_pool():
    """Pooling keeps the relative precision of a probability beside one near 1."""
    p = torch.full((1, 1, 200), 1e-9)
    p[..., 0] = 1.0
    pooled = pool(p, ScoringConfig(pool_kernel=13))
    torch.testing.assert_close(pooled[0, 0, 50:150], torch.full((100,), 1e-9))


@given(
    kernel=st.integers(0, 20).map(lambda n: 2 * n + 1),
    length=st.integers(1, 60),
    edges=st.sampled_from(["padded", "clipped"]),
)
def test_pool_equals_the_library_pool(kernel, length, edges):
    """Every odd kernel, also one wider than the prompt, gives torch's average pool."""
    config = ScoringConfig(pool_kernel=kernel, pool_edges=edges)
    p = draw(kernel * 1000 + length, 2, 3, length).softmax(-1)
    want = torch.nn.functional.avg_pool1d(
        p, kernel, stride=1, padding=kernel // 2, count_include_pad=edges == "padded"
    )
    torch.testing.assert_close(pool(p, config), want, rtol=1e-5, atol=1e-8)


@given(seed=st.integers(0, 10**6), rows=st.integers(1, 5), keys=st.integers(1, 40))
def test_unpooled_rows_are_probabilities(seed, rows, keys):
    """Without pooling every score lies in (0, 1], and some head's scores sum to at most 1."""
    logits = 5 * draw(seed, 3, rows, keys)
    got = row_importance(logits, ScoringConfig(pool_kernel=0))
    assert got.shape == (rows, keys)
    assert ((got >= 0) & (got <= 1 + 1e-6)).all()
    one_head = row_importance(logits[:1], ScoringConfig(pool_kernel=0))
    torch.testing.assert_close(one_head.sum(-1), torch.ones(rows), rtol=1e-5, atol=1e-5)


def test_rows_are_independent():
    """A row's scores do not depend on which other rows are scored with it."""
    q, k, ahead = draw(8, 4, 4, 8), draw(9, 30, 2, 8), draw(10, 3, 2, 8)
    config = ScoringConfig(normalize="visible")
    together = layer_importance(q, k, 0.3, config, ahead_keys=ahead)
    first = layer_importance(q[:2], k, 0.3, config, ahead_keys=ahead[:1])
    torch.testing.assert_close(together[:2], first, rtol=1e-6, atol=1e-8)
