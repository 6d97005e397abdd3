"""The authors' GPU kernels for published patterns, through the ``minference`` package.

*Untested*: they have not run here yet. ``tests/gpu/test_minference_gpu.py`` holds them to the
reference kernel where there is a GPU and the package.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from math import isclose
from typing import Any

import torch
from torch import Tensor

from harness.methods.minference.patterns import Choice, Layer

NAME = "minference package"
BLOCK = 64
"""Rows and columns of the kernels' blocks."""

Kernel = Callable[..., Any]


def fits(layer: Layer) -> bool:
    """Whether the kernels can compute a layer: on CUDA, 16 bits, usual scale, blocks of 64."""
    q = layer.q
    return (
        q.is_cuda
        and q.dtype in {torch.bfloat16, torch.float16}
        and layer.block == BLOCK
        and isclose(layer.scale, q.shape[-1] ** -0.5, rel_tol=1e-3)
        and find_spec("minference") is not None
    )


@cache
def kernels() -> tuple[Kernel, Kernel]:
    """Kernels of columns with diagonals, and of blocks, imported on first use."""
    from minference.ops.block_sparse_flash_attention import block_sparse_attention
    from minference.ops.pit_sparse_flash_attention_v2 import vertical_slash_sparse_attention

    return vertical_slash_sparse_attention, block_sparse_attention


def fused_attention(qkv: tuple[Tensor, Tensor, Tensor], choices: Sequence[Choice]) -> Tensor:
    """Attend with one kernel call a head.

    Parameters
    ----------
    qkv
        Queries, keys and values, each [H, M, d]; key heads repeated for their groups.
    choices
        One a head (:func:`harness.methods.minference.patterns.published_choices`).

    Returns
    -------
    Tensor
        [H, M, d].
    """
    lines, blocks = kernels()
    out = torch.empty_like(qkv[2])
    for index, choice in enumerate(choices):
        head = [x[None, index : index + 1].contiguous() for x in qkv]
        if choice.blocks:
            out[index] = blocks(*head, choice.blocks)[0, 0]
        else:
            places = (choice.columns[None, None], choice.offsets[None, None])
            out[index] = lines(*head, *places)[0, 0]
    return out
