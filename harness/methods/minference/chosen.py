"""What the heads of a layer compute: whole blocks of keys, and single key columns beside them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Chosen:
    """One layer's choice, the same for every query of a block but for causality.

    Attributes
    ----------
    columns
        bool [H, M]: key columns that every query sees.
    blocks
        bool [H, B, B]: key blocks that a block of queries sees; the diagonal is always set, and
        nothing above it.
    block
        Rows and columns of a block; the last is short where ``block`` does not divide M.
    """

    columns: Tensor
    blocks: Tensor
    block: int

    def pairs(self) -> Tensor:
        """Causal (query, key) pairs that are computed: int64 [H]."""
        sizes = block_sizes(self.columns.shape[1], self.block, self.columns.device)
        below = (sizes[:, None] * sizes[None, :]).tril(-1)
        area = below + torch.diag(sizes * (sizes + 1) // 2)
        beside = self.columns_by_block()[:, None, :] * sizes[:, None]
        beside = beside * torch.ones_like(area).tril(-1)
        return torch.where(self.blocks, area, beside).sum((1, 2))

    def columns_by_block(self) -> Tensor:
        """Count the chosen columns of each key block: int64 [H, B]."""
        heads, length = self.columns.shape
        pad = self.blocks.shape[1] * self.block - length
        return torch.nn.functional.pad(self.columns, (0, pad)).view(heads, -1, self.block).sum(2)

    def share(self) -> float:
        """Share of all causal pairs that is computed, over the heads."""
        heads, length = self.columns.shape
        causal: int = heads * length * (length + 1) // 2
        return int(self.pairs().sum()) / causal

    def seen(self, head: int, row: int) -> Tensor:
        """Key columns that a block of queries computes, ascending: int64 [n]."""
        end = min((row + 1) * self.block, self.columns.shape[1])
        chosen = self.blocks[head, row].repeat_interleave(self.block)[:end]
        return (chosen | self.columns[head, :end]).nonzero()[:, 0]


def block_sizes(length: int, block: int, device: torch.device) -> Tensor:
    """Tokens in each block: int64 [B]."""
    starts = torch.arange(0, length, block, device=device)
    return (length - starts).clamp(max=block)
