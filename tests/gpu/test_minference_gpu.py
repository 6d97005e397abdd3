"""vLLM's sparse kernel on a GPU gives what the reference kernel gives."""

from __future__ import annotations

import pytest
import torch

from harness.methods.minference import fused
from harness.methods.minference.budget import within
from harness.methods.minference.chosen import Chosen
from harness.methods.minference.kernel import sparse_attention
from harness.methods.minference.patterns import RANKERS, Layer, published
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


def chosen_by(name: str, layer: Layer) -> Chosen:
    """The published patterns, or one of our own within a fifth of the pairs."""
    if name == "published":
        return published(layer, HEADS)
    return within(RANKERS[name](layer), 0.2, layer.block)


@pytest.mark.parametrize("head", [64, 128])
@pytest.mark.parametrize("length", [4096, 4001, 65, 3])
@pytest.mark.parametrize("name", ["published", *RANKERS])
def test_same_output(name: str, length: int, head: int) -> None:
    """Grouped queries in bfloat16: 1 % of the outputs' norm apart at most."""
    draw = torch.Generator().manual_seed(0)
    q = torch.randn(4, length, head, generator=draw).to("cuda", torch.bfloat16)
    k, v = torch.randn(2, 2, length, head, generator=draw).to("cuda", torch.bfloat16)
    scale = head**-0.5
    layer = Layer(q, k.repeat_interleave(2, 0), scale, fused.BLOCK, 4, 64)
    assert fused.fits(q, layer.block)
    chosen = chosen_by(name, layer)
    expected = sparse_attention((q, k, v), chosen, scale).float()
    found = fused.fused_attention((q, k, v), chosen, scale).float()
    assert (found - expected).norm() < 0.01 * expected.norm()
