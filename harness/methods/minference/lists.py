"""A choice as the index lists that vLLM's sparse attention kernel reads."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from harness.methods.minference.chosen import Chosen


class Lists(NamedTuple):
    """For each head and block of queries: where its key blocks begin, and its single columns.

    The lists ascend, and no key is in both. A block's diagonal is the last of its blocks: the
    kernel masks only the last ones, and only the diagonal needs it.

    Attributes
    ----------
    block_count, column_count
        int32 [H, B].
    block_offset, column_index
        int32 [H, B, n]: positions of keys; zeros follow the counted ones.
    """

    block_count: Tensor
    block_offset: Tensor
    column_count: Tensor
    column_index: Tensor


def lists_of(chosen: Chosen) -> Lists:
    """List a choice; columns that a block holds already are not listed again."""
    heads, count, _ = chosen.blocks.shape
    device = chosen.blocks.device
    row = torch.arange(count, device=device)
    every = torch.arange(chosen.columns.shape[1], device=device)
    blocks = _packed(chosen.blocks, (row * chosen.block).expand_as(chosen.blocks))
    number, places = _packed(chosen.columns, every.expand_as(chosen.columns))
    real = torch.arange(places.shape[1], device=device) < number[:, None]
    block_of = (places // chosen.block).to(torch.int64)[:, None, :].expand(heads, count, -1)
    beside = real[:, None, :] & (block_of < row[:, None]) & ~chosen.blocks.gather(2, block_of)
    columns = _packed(beside, places[:, None, :].expand_as(beside))
    return Lists(*blocks, *columns)


def _packed(chosen: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Move the chosen values to the front, in order: int32 counts [...] and values [..., n]."""
    counts = chosen.sum(-1, dtype=torch.int32)
    width = max(1, int(counts.max()))
    order = chosen.to(torch.uint8).argsort(dim=-1, descending=True, stable=True)[..., :width]
    real = torch.arange(width, device=chosen.device) < counts[..., None]
    return counts, (values.gather(-1, order) * real).to(torch.int32)
