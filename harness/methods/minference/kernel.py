"""Reference kernel: causal attention over chosen keys that computes nothing else."""

from __future__ import annotations

import torch
from torch import Tensor

from harness.methods.minference.chosen import Chosen


def sparse_attention(qkv: tuple[Tensor, Tensor, Tensor], chosen: Chosen, scale: float) -> Tensor:
    """Attend from each block of queries to its own keys only.

    Parameters
    ----------
    qkv
        q [H, M, d]; k and v [Hkv, M, d], where Hkv divides H (grouped queries).

    Returns
    -------
    Tensor
        [H, M, d], in the dtype of ``v``; the softmax is in float32.
    """
    q, k, v = qkv
    heads, length, _ = q.shape
    group = heads // k.shape[0]
    out = q.new_empty((heads, length, v.shape[2]), dtype=v.dtype)
    for head in range(heads):
        keys, values = k[head // group], v[head // group]
        for row in range(chosen.blocks.shape[1]):
            start, end = row * chosen.block, min((row + 1) * chosen.block, length)
            seen = chosen.seen(head, row)
            logits = (q[head, start:end] @ keys[seen].T).float() * scale
            rows = torch.arange(start, end, device=seen.device)
            logits = logits.masked_fill(seen[None, :] > rows[:, None], -torch.inf)
            out[head, start:end] = logits.softmax(-1).to(v.dtype) @ values[seen]
    return out
