"""Keys come back from a paged cache whatever order its backend has; the backends here are made."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from harness.errors import EngineRefusedError
from harness.methods.specprefill.vllm.keycache import probe

HEADS, SIZE, WIDTH, BLOCKS = 3, 32, 64, 5


def plain(token, element):
    """Token after token."""
    return token * WIDTH + element


def transposed(token, element):
    """Element after element, as for vector instructions."""
    return element * SIZE + token


def paired(token, element):
    """Pairs of elements of 16 tokens together, as for tiles."""
    tile = (token // 16) * 16 * WIDTH
    return tile + (element // 2) * 32 + (token % 16) * 2 + element % 2


class Backend:
    """Writes keys in a given order into the first half of a head's part of the block."""

    def __init__(self, order, keep=lambda keys: keys):
        token, element = torch.meshgrid(torch.arange(SIZE), torch.arange(WIDTH), indexing="ij")
        self.where = order(token, element)
        self.keep = keep

    def do_kv_cache_update(self, layer, key, value, cache, slots):
        keys = self.keep(key)
        for slot, row, other in zip(slots.tolist(), keys, value, strict=True):
            block, token = divmod(slot, SIZE)
            for head in range(HEADS):
                flat = cache[block, head].view(-1)
                flat[self.where[token]] = row[head].to(cache.dtype)
                flat[SIZE * WIDTH + self.where[token]] = other[head].to(cache.dtype)


def make_layer(backend, dtype=torch.bfloat16):
    """What probe and gather read of a vLLM attention layer."""
    return SimpleNamespace(
        kv_cache=torch.zeros(BLOCKS, HEADS, SIZE, 2 * WIDTH, dtype=dtype),
        num_kv_heads=HEADS,
        head_size=WIDTH,
        dtype=dtype,
        impl=backend,
        attn_backend=SimpleNamespace(get_name=lambda: "MADE"),
    )


@pytest.mark.parametrize("order", [plain, transposed, paired])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_keys_come_back_in_order(order, dtype):
    """A prompt over scattered blocks: exactly the keys that were written, token by token."""
    layer = make_layer(Backend(order), dtype)
    table, length = [4, 0, 2], 2 * SIZE + 7
    keys = torch.randn(length, HEADS, WIDTH).to(dtype)
    slots = torch.tensor([table[i // SIZE] * SIZE + i % SIZE for i in range(length)])
    layer.impl.do_kv_cache_update(layer, keys, torch.zeros_like(keys), layer.kv_cache, slots)
    found = probe(layer, BLOCKS, SIZE).gather(layer.kv_cache, table, length)
    assert found.dtype == torch.float32
    assert torch.equal(found, keys.float().permute(1, 2, 0))


def test_strided_orders_are_read_as_views():
    """The vector layout needs no index of every element; tiles do."""
    assert probe(make_layer(Backend(transposed)), BLOCKS, SIZE).strides is not None
    assert probe(make_layer(Backend(paired)), BLOCKS, SIZE).strides is None


def test_a_cache_that_changes_keys_is_refused():
    """A quantized cache does not give the marks back: an error, not wrong scores."""
    lossy = Backend(plain, keep=lambda keys: (keys / 8).round() * 8)
    with pytest.raises(EngineRefusedError, match="unquantized"):
        probe(make_layer(lossy), BLOCKS, SIZE)
