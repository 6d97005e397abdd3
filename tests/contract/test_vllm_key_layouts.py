"""Keys written by vLLM's own CPU cache write come back, in every layout it has."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from harness.methods.specprefill.vllm.keycache import probe

pytest.importorskip("vllm.v1.attention.backends.cpu_attn")

HEADS, SIZE, BLOCKS = 3, 128, 5


class CpuWrite:
    """What ``CPUAttentionBackendImpl.do_kv_cache_update`` does, for any instruction set."""

    def __init__(self, isa: str) -> None:
        self.isa = isa

    def do_kv_cache_update(self, layer, key, value, kv_cache, slot_mapping):
        from vllm import _custom_ops as ops

        blocks, heads, size, _ = kv_cache.size()
        halves = kv_cache.view((blocks, heads, size * 2, -1)).chunk(2, dim=2)
        ops.cpu_attn_reshape_and_cache(
            key,
            value,
            *halves,
            slot_mapping,
            self.isa,
            k_scale=1.0,
            v_scale=1.0,
            kv_cache_dtype="auto",
        )


@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize(
    ("isa", "dtype"),
    [
        ("vec", torch.float32),
        ("vec", torch.bfloat16),
        ("vec16", torch.bfloat16),
        ("amx", torch.bfloat16),
    ],
)
def test_keys_come_back(isa, dtype, width):
    """A prompt over scattered blocks, whichever way the instruction set wants its keys packed."""
    layer = SimpleNamespace(
        kv_cache=torch.zeros(BLOCKS, HEADS, SIZE, 2 * width, dtype=dtype),
        num_kv_heads=HEADS,
        head_size=width,
        dtype=dtype,
        impl=CpuWrite(isa),
        attn_backend=SimpleNamespace(get_name=lambda: "CPU_ATTN"),
    )
    table, length = [4, 0, 2], 2 * SIZE + 41
    keys = torch.randn(length, HEADS, width).to(dtype)
    slots = torch.tensor([table[i // SIZE] * SIZE + i % SIZE for i in range(length)])
    layer.impl.do_kv_cache_update(layer, keys, torch.randn_like(keys), layer.kv_cache, slots)
    found = probe(layer, BLOCKS, SIZE).gather(layer.kv_cache, table, length)
    assert torch.equal(found, keys.float().permute(1, 2, 0))
