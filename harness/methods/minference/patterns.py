"""MInference's patterns: which columns and blocks come first, for one layer's heads at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil

import torch
from torch import Tensor

from harness.methods.minference.budget import NEVER, Ranks
from harness.methods.minference.chosen import Chosen
from harness.methods.minference.published import HeadPattern

Ranker = Callable[["Layer"], Ranks]


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


def published(layer: Layer, heads: Sequence[HeadPattern]) -> Chosen:
    """Choose each head's columns and blocks with the sizes of a published file.

    As the authors' code does, the first 30 columns and the latest 100 diagonals are always among
    the chosen, and a diagonal computes every block that it crosses.
    """
    device = layer.q.device
    vertical, slash = _column_mass(layer)
    vertical[:, :30], slash[:, :100] = torch.inf, torch.inf
    places = block_sparse_places(layer)
    every = torch.arange(layer.length, device=device)
    columns = torch.zeros(layer.heads, layer.length, dtype=torch.bool, device=device)
    crossed = torch.zeros(layer.heads, layer.blocks + 1, dtype=torch.bool, device=device)
    most = torch.zeros(layer.heads, dtype=torch.int64, device=device)
    for index, head in enumerate(heads):
        if head.kind == "block_sparse":
            most[index] = max(1, head.first)
            continue
        if head.kind == "stream_llm":
            chosen, offsets = every[: head.first], every[: max(1, head.second)]
        else:
            chosen = vertical[index].topk(min(layer.length, max(30, head.first))).indices
            offsets = slash[index].topk(min(layer.length, max(50, head.second))).indices
        columns[index, chosen] = True
        crossed[index, offsets // layer.block] = True
        crossed[index, (offsets + layer.block - 1) // layer.block] = True
    crossed[:, 0] = True
    rows = _rows_above(layer)
    blocks = crossed[:, rows.clamp(min=0)] & (most == 0)[:, None, None]
    blocks |= places < most[:, None, None]
    return Chosen(columns, blocks & (rows >= 0), layer.block)


def vertical_slash(layer: Layer) -> Ranks:
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


def a_shape(layer: Layer) -> Ranks:
    """Sink, then the block diagonals outwards: a local window (StreamingLLM's shape)."""
    density = torch.full((layer.heads, layer.length + layer.blocks), -torch.inf)
    density[:, : layer.sink] = torch.inf
    density[:, layer.length :] = -torch.arange(layer.blocks, dtype=torch.float32)
    density[:, layer.length] = torch.inf
    return _ranks(layer, density.to(layer.q.device))


def block_sparse(layer: Layer) -> Ranks:
    """Blocks in the order of softmax(mean query · mean key), each row its own share.

    A row's rank is scaled by its length, so that each row computes the same share of its blocks;
    the diagonal block and the sink come first.
    """
    row = torch.arange(layer.blocks, device=layer.q.device)
    blocks = block_sparse_places(layer) * layer.blocks // (row[:, None] + 1)
    columns = torch.full((layer.heads, layer.length), NEVER, device=layer.q.device)
    columns[:, : layer.sink] = 0
    return Ranks(columns, blocks.masked_fill(_rows_above(layer) < 0, NEVER))


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


def _ranks(layer: Layer, density: Tensor) -> Ranks:
    """Ranks from the densities of M columns and then of the block diagonals: [H, M + B]."""
    order = density.argsort(dim=1, descending=True, stable=True)
    place = torch.arange(density.shape[1], device=order.device).expand_as(order).contiguous()
    rank = torch.empty_like(order).scatter_(1, order, place)
    rank[density == torch.inf] = 0
    rows = _rows_above(layer)
    blocks = rank[:, layer.length :][:, rows.clamp(min=0)]
    return Ranks(rank[:, : layer.length], blocks.masked_fill(rows < 0, NEVER))


def _rows_above(layer: Layer) -> Tensor:
    """Rows of blocks from each key block down to each query block: int64 [B, B]."""
    row = torch.arange(layer.blocks, device=layer.q.device)
    return row[:, None] - row[None, :]
