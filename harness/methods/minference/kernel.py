"""Reference kernel: causal attention over chosen columns that computes nothing else."""

from __future__ import annotations

import torch
from torch import Tensor


def sparse_attention(
    qkv: tuple[Tensor, Tensor, Tensor], columns: Tensor, block: int, scale: float
) -> Tensor:
    """Attend from each block of queries to its own columns only.

    Parameters
    ----------
    qkv
        Queries, keys and values, each [H, M, d].
    columns
        bool [H, blocks, M]; each query needs at least one column at or before it.

    Returns
    -------
    Tensor
        [H, M, d], in the dtype of ``v``; the softmax is in float32.
    """
    q, k, v = qkv
    heads, length, _ = q.shape
    out = torch.empty_like(v)
    for head in range(heads):
        for index in range(columns.shape[1]):
            start, end = index * block, min((index + 1) * block, length)
            seen = columns[head, index, :end].nonzero()[:, 0]
            logits = (q[head, start:end] @ k[head, seen].T).float() * scale
            rows = torch.arange(start, end, device=seen.device)
            logits = logits.masked_fill(seen[None, :] > rows[:, None], -torch.inf)
            out[head, start:end] = logits.softmax(-1).to(v.dtype) @ v[head, seen]
    return out
