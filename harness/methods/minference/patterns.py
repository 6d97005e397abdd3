"""Which key columns each block of queries computes, for one layer's heads at once.

A pattern is a *rank* for each (head, query block, key column): the lower, the earlier it is
computed. Columns are taken in the order of rank while they stay within ``keep`` of the causal
pairs, so that every pattern has the same budget; what must be computed (the diagonal, the sink)
has rank 0 and is never left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import NamedTuple

import torch
from torch import Tensor

from harness.methods.minference.published import HeadPattern

Ranker = Callable[["Layer"], Tensor]


class Layer:
    """One layer's prefill: q [H, M, d], k [H, M, d] (key heads repeated for their groups).

    Attributes
    ----------
    blocks
        Number of query blocks, the last one short.
    """

    def __init__(  # noqa: PLR0917  (mirrors the method's knobs)
        self, q: Tensor, k: Tensor, scale: float, block: int, sink: int, last_queries: int
    ) -> None:
        self.q, self.k, self.scale = q, k, scale
        self.block, self.sink, self.last_queries = block, sink, last_queries
        self.heads, self.length = q.shape[0], q.shape[1]
        self.blocks = ceil(self.length / block)

    def pairs(self) -> Tensor:
        """Causal pairs of each (query block, key column): int64 [blocks, M]."""
        start = torch.arange(self.blocks, device=self.q.device)[:, None] * self.block
        end = (start + self.block).clamp(max=self.length)
        column = torch.arange(self.length, device=self.q.device)[None, :]
        return (end - torch.maximum(start, column)).clamp(min=0)


def columns_within(layer: Layer, pattern: str, keep: float) -> tuple[Tensor, float]:
    """Choose the columns of each query block.

    Returns
    -------
    tuple
        bool [H, blocks, M], and the achieved share of the causal pairs.
    """
    ranks = RANKERS[pattern](layer)
    pairs = layer.pairs()
    flat = ranks.reshape(layer.heads, -1)
    weights = pairs.reshape(1, -1).expand_as(flat).to(torch.float64)
    cost = torch.zeros(layer.heads, int(flat.max()) + 1, dtype=torch.float64, device=flat.device)
    cost.scatter_add_(1, flat, weights)
    reached = cost.cumsum(1)
    budget = keep * float(pairs.sum()) * (1 + 1e-9)
    last = (reached <= budget).sum(1) - 1
    last = last.clamp(min=0)[:, None, None]
    chosen = (ranks <= last) & (pairs > 0)
    achieved = (chosen * pairs).sum().item() / (layer.heads * pairs.sum().item())
    return chosen, achieved


class Choice(NamedTuple):
    """What one head of a published file computes.

    Attributes
    ----------
    columns, offsets
        Key columns, and distances of diagonals from the main one: int64 [n] each.
    blocks
        Blocks a row in place of both; 0 for a head of columns and diagonals.
    """

    columns: Tensor
    offsets: Tensor
    blocks: int = 0


def published_choices(layer: Layer, heads: Sequence[HeadPattern]) -> list[Choice]:
    """Choose each head's columns and diagonals with the sizes of a published file.

    As the authors' code does, the first 30 columns and the latest 100 diagonals are always among
    the chosen.
    """
    vertical, slash = _column_mass(layer)
    vertical[:, :30], slash[:, :100] = torch.inf, torch.inf
    every = torch.arange(layer.length, device=layer.q.device)
    found = []
    for index, head in enumerate(heads):
        if head.kind == "block_sparse":
            found.append(Choice(every[:0], every[:0], max(1, head.first)))
        elif head.kind == "stream_llm":
            found.append(Choice(every[: head.first], every[: max(1, head.second)]))
        else:
            columns = vertical[index].topk(min(layer.length, max(30, head.first))).indices
            offsets = slash[index].topk(min(layer.length, max(50, head.second))).indices
            found.append(Choice(columns, offsets))
    return found


def published_columns(layer: Layer, choices: Sequence[Choice]) -> tuple[Tensor, float]:
    """Columns of each query block that published choices compute.

    A diagonal computes every block that it crosses, as in the authors' kernels.

    Returns
    -------
    tuple
        bool [H, blocks, M], and the achieved share of the causal pairs.
    """
    blocks = block_sparse_places(layer)
    rows = []
    for index, (columns, offsets, count) in enumerate(choices):
        if count:
            chosen = (blocks[index] < count).repeat_interleave(layer.block, 1)
            rows.append(chosen[:, : layer.length])
            continue
        vertical = torch.zeros(layer.length, dtype=torch.bool, device=layer.q.device)
        vertical[columns] = True
        crossed = torch.zeros(layer.blocks + 1, dtype=torch.bool, device=layer.q.device)
        crossed[offsets // layer.block] = True
        crossed[(offsets + layer.block - 1) // layer.block] = True
        rows.append(vertical[None, :] | crossed[_block_offsets(layer).clamp(min=0)])
    pairs = layer.pairs()
    chosen = torch.stack(rows) & (pairs > 0)
    return chosen, (chosen * pairs).sum().item() / (layer.heads * pairs.sum().item())


def vertical_slash(layer: Layer) -> Tensor:
    """Columns and block diagonals in the order of the attention mass they hold for each pair.

    The mass is estimated from the last queries: a column's is the sum over them; a diagonal of
    blocks takes each offset by the share of the block's pairs that lie on it.
    """
    vertical, slash = _column_mass(layer)
    length, block = layer.length, layer.block
    band = block - (
        torch.arange(layer.blocks, device=slash.device)[:, None] * block
        - torch.arange(length, device=slash.device)[None, :]
    ).abs().clamp(max=block)
    diagonal = slash @ (band / block).T.to(slash.dtype)
    # A column costs one pair a query, a diagonal of blocks `block` of them.
    density = torch.cat([vertical, diagonal / block], 1)
    density[:, : layer.sink] = torch.inf
    density[:, length] = torch.inf
    return _ranks(layer, density)


def a_shape(layer: Layer) -> Tensor:
    """Sink, then the block diagonals outwards: a local window (StreamingLLM's shape)."""
    density = torch.full((layer.heads, layer.length + layer.blocks), -torch.inf)
    density[:, : layer.sink] = torch.inf
    density[:, layer.length :] = -torch.arange(layer.blocks, dtype=torch.float32)
    density[:, layer.length] = torch.inf
    return _ranks(layer, density.to(layer.q.device))


def block_sparse(layer: Layer) -> Tensor:
    """Blocks in the order of softmax(mean query · mean key), each row its own share.

    A row's rank is scaled by its length, so that each row computes the same share of its blocks;
    the diagonal block and the sink come first.
    """
    row = torch.arange(layer.blocks, device=layer.q.device)
    ranks = block_sparse_places(layer) * layer.blocks // (row[:, None] + 1)
    ranks = ranks.repeat_interleave(layer.block, 2)[:, :, : layer.length]
    ranks[:, :, : layer.sink] = 0
    return ranks


def block_sparse_places(layer: Layer) -> Tensor:
    """Place of each key block in its row's order, the diagonal first: int64 [H, blocks, blocks]."""
    pad = layer.blocks * layer.block - layer.length
    means = [
        torch.nn.functional.pad(x, (0, 0, 0, pad)).unflatten(1, (layer.blocks, layer.block)).mean(2)
        for x in (layer.q.float(), layer.k.float())
    ]
    scores = means[0] @ means[1].transpose(1, 2) * layer.scale
    row = torch.arange(layer.blocks, device=scores.device)
    scores = scores.masked_fill(row[None, :] > row[:, None], -torch.inf)
    scores = scores.masked_fill(row[None, :] == row[:, None], torch.inf)
    order = scores.argsort(dim=-1, descending=True, stable=True)
    return torch.empty_like(order).scatter_(2, order, row.expand_as(order).contiguous())


RANKERS: dict[str, Ranker] = {
    "vertical_slash": vertical_slash,
    "a_shape": a_shape,
    "block_sparse": block_sparse,
}


def _column_mass(layer: Layer) -> tuple[Tensor, Tensor]:
    """Attention of the last queries by column and by offset (diagonal): float32 [H, M] each."""
    mass = _tail_attention(layer)
    tail, length = mass.shape[1], layer.length
    rows = torch.arange(length - tail, length, device=mass.device)
    offset = rows[:, None] - torch.arange(length, device=mass.device)[None, :]
    causal = offset >= 0
    slash = torch.zeros(layer.heads, length, device=mass.device)
    slash.scatter_add_(1, offset[causal].expand(layer.heads, -1), mass[:, causal])
    return mass.sum(1), slash


def _tail_attention(layer: Layer) -> Tensor:
    """Attention of the last queries to every key: float32 [H, T, M], causal."""
    tail = min(layer.last_queries, layer.length)
    logits = layer.q[:, -tail:].float() @ layer.k.float().transpose(1, 2) * layer.scale
    column = torch.arange(layer.length, device=logits.device)
    row = torch.arange(layer.length - tail, layer.length, device=logits.device)
    logits = logits.masked_fill(column[None, :] > row[:, None], -torch.inf)
    return logits.softmax(-1)


def _ranks(layer: Layer, density: Tensor) -> Tensor:
    """Ranks from the densities of M columns and then of the block diagonals: [H, blocks, M]."""
    length, blocks = layer.length, layer.blocks
    order = density.argsort(dim=1, descending=True, stable=True)
    place = torch.arange(length + blocks, device=order.device).expand_as(order).contiguous()
    rank = torch.empty_like(order).scatter_(1, order, place)
    rank[density == torch.inf] = 0
    of_diagonal = rank[:, length:][:, _block_offsets(layer).clamp(min=0)]
    # Above the diagonal nothing is computed, whatever its rank.
    return torch.minimum(rank[:, None, :length], of_diagonal)


def _block_offsets(layer: Layer) -> Tensor:
    """Blocks between each query block and each column's block: int64 [blocks, M]."""
    column_block = torch.arange(layer.length, device=layer.q.device) // layer.block
    return torch.arange(layer.blocks, device=layer.q.device)[:, None] - column_block[None, :]
