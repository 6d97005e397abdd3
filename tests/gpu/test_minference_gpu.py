"""The authors' kernels on a GPU give what the reference kernel gives."""

from __future__ import annotations

import pytest
import torch

from harness.methods.minference import fused
from harness.methods.minference.kernel import sparse_attention
from harness.methods.minference.patterns import Layer, published_choices, published_columns
from harness.methods.minference.published import HeadPattern

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"),
]

HEADS = (
    HeadPattern("vertical_and_slash", 30, 800),
    HeadPattern("vertical_and_slash", 1000, 100),
    HeadPattern("stream_llm", 64, 256),
    HeadPattern("block_sparse", 12, 0),
)


def test_same_output() -> None:
    """4,096 tokens in bfloat16, every kind of head: 1 % of the outputs' norm apart at most."""
    pytest.importorskip("minference")
    draw = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, 4, 4096, 64, generator=draw).to("cuda", torch.bfloat16)
    layer = Layer(q, k, 64**-0.5, fused.BLOCK, 0, 64)
    assert fused.fits(layer)
    choices = published_choices(layer, HEADS)
    columns, _ = published_columns(layer, choices)
    expected = sparse_attention((q, k, v), columns, fused.BLOCK, layer.scale).float()
    found = fused.fused_attention((q, k, v), choices).float()
    assert (found - expected).norm() < 0.01 * expected.norm()
