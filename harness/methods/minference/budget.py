"""As much of a pattern as a budget allows.

A pattern is a *rank* for each column and each block: the lower, the earlier it is computed. They
are taken in the order of rank while the pairs stay within ``keep`` of the causal ones, so that
every pattern has the same budget; what must be computed (the diagonal, the sink) has rank 0 and
is never left out.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from harness.methods.minference.chosen import Chosen

NEVER = 2**40
"""Rank of what a pattern does not compute."""


class Ranks(NamedTuple):
    """Ranks of columns, int64 [H, M], and of blocks, int64 [H, B, B]."""

    columns: Tensor
    blocks: Tensor

    def up_to(self, last: Tensor, block: int) -> Chosen:
        """Choose what each head ranks at most at ``last``, int64 [H]."""
        return Chosen(self.columns <= last[:, None], self.blocks <= last[:, None, None], block)


def within(ranks: Ranks, keep: float, block: int) -> Chosen:
    """Choose by rank, each head as much as fits into ``keep`` of the causal pairs.

    The pairs grow with the rank, so that each head's last one is found by bisection.
    """
    heads, length = ranks.columns.shape
    budget = keep * (length * (length + 1) // 2) * (1 + 1e-9)
    greatest = max(int(x.where(x < NEVER, 0).max()) for x in ranks)
    low = torch.zeros(heads, dtype=torch.int64, device=ranks.columns.device)
    high = torch.full_like(low, greatest)
    while bool((low < high).any()):
        middle = (low + high + 1) // 2
        fits = ranks.up_to(middle, block).pairs() <= budget
        low, high = torch.where(fits, middle, low), torch.where(fits, high, middle - 1)
    return ranks.up_to(low, block)
