"""vLLM's sparse attention kernel for GPUs, which computes blocks of keys and single columns.

It comes with vLLM's CUDA wheels (``vllm.vllm_flash_attn.flash_attn_interface``), for Ampere and
later, and was written for MInference (arXiv:2407.02490, appendix C.4.2). It takes heads of 128
values; smaller ones are filled with zeros, which changes no product.

*Untested*: it has not run here yet. ``tests/gpu/test_minference_gpu.py`` holds it to the reference
kernel where there is a GPU; the lists that it reads are tested everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from harness.methods.minference.chosen import Chosen
from harness.methods.minference.lists import lists_of

NAME = "vLLM sparse kernel"
BLOCK = 64
"""Rows and columns of the kernel's blocks."""

HEAD = 128
"""Values a head."""

_ENTRIES = 2**27  # of the largest list, so that its making stays within a few GiB


@cache
def kernel() -> Callable[..., Any] | None:
    """Import the kernel on first use; None where this machine has none."""
    if not torch.cuda.is_available() or find_spec("vllm") is None:
        return None
    from vllm.vllm_flash_attn import flash_attn_interface

    if not flash_attn_interface.is_fa_version_supported(2):
        return None
    found: Callable[..., Any] = flash_attn_interface.sparse_attn_func
    return found


def fits(q: Tensor, block: int) -> bool:
    """Whether the kernel can compute a layer of queries [H, M, d]."""
    return (
        q.is_cuda
        and q.dtype in {torch.bfloat16, torch.float16}
        and q.shape[2] <= HEAD
        and block == BLOCK
        and kernel() is not None
    )


def fused_attention(qkv: tuple[Tensor, Tensor, Tensor], chosen: Chosen, scale: float) -> Tensor:
    """Attend with the kernel: shapes as in :func:`.kernel.sparse_attention`."""
    sparse = kernel()
    assert sparse is not None, "fits() comes first"
    q, k, v = qkv
    out = torch.empty_like(q)
    group = q.shape[0] // k.shape[0]
    widest = max(1, int(chosen.columns.sum(1).max())) * chosen.blocks.shape[1] * group
    step = max(1, _ENTRIES // widest)
    for first in range(0, k.shape[0], step):
        mine, theirs = slice(first * group, (first + step) * group), slice(first, first + step)
        part = Chosen(chosen.columns[mine], chosen.blocks[mine], chosen.block)
        lists = [x[None].contiguous() for x in lists_of(part)]
        rows = [_tokens_first(x) for x in (q[mine], k[theirs], v[theirs])]
        attended = sparse(*rows, *lists, softmax_scale=scale, causal=True)
        out[mine] = attended[0, :, :, : q.shape[2]].transpose(0, 1)
    return out


def _tokens_first(states: Tensor) -> Tensor:
    """[H, M, d] → [1, M, H, 128], zeros after the d values."""
    wide = torch.nn.functional.pad(states, (0, HEAD - states.shape[2]))
    return wide.transpose(0, 1)[None]
