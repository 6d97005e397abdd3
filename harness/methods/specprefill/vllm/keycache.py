"""Reading keys back from vLLM's paged cache, whatever order a backend stores them in.

The CPU backend packs keys for the instruction set (transposed for vectors, tiles for AMX), and
the order is private to its kernels. So it is found by asking: marked keys are written into one
scratch block with the backend's own cache write, and the block is read to see where each went.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from harness.errors import EngineRefusedError

# Markers are written one base-256 digit a pass: 1…256 are exact in bfloat16, float16 and float32.
_BASE = 256


@dataclass(frozen=True)
class KeyLayout:
    """Where a block keeps its keys.

    Attributes
    ----------
    block_dim
        Which dimension of the cache tensor counts blocks.
    offsets
        int64 [key heads, tokens a block, head size]: the element's place in a flattened block.
    strides
        Strides (head, token, element) where ``offsets`` is a plain strided view, else None.
    """

    block_dim: int
    offsets: torch.Tensor
    strides: tuple[int, int, int] | None

    def gather(self, cache: torch.Tensor, blocks: Sequence[int], length: int) -> torch.Tensor:
        """Read the first ``length`` keys of a request.

        Parameters
        ----------
        cache
            One layer's cache tensor.
        blocks
            The request's block table.

        Returns
        -------
        torch.Tensor
            float32 [key heads, head size, length], contiguous: ready for the matrix product.
        """
        heads, size, width = self.offsets.shape
        count = -(-length // size)
        index = torch.tensor(blocks[:count], dtype=torch.int64, device=cache.device)
        paged = cache.movedim(self.block_dim, 0)
        if self.strides is not None and paged.is_contiguous():
            head, token, element = self.strides
            view = torch.as_strided(
                paged,
                (paged.shape[0], heads, width, size),
                (paged.stride(0), head, element, token),
                paged.storage_offset() + int(self.offsets[0, 0, 0]),
            )
            picked = view[index]
        else:
            flat = paged[index].reshape(count, -1)
            order = self.offsets.permute(0, 2, 1).reshape(-1)
            picked = flat.index_select(1, order).view(count, heads, width, size)
        keys = picked.permute(1, 2, 0, 3).to(torch.float32)
        return keys.reshape(heads, width, count * size)[..., :length]


def probe(layer: Any, blocks: int, block_size: int) -> KeyLayout:
    """Find the layout of ``layer.kv_cache`` by writing marked keys into a scratch block.

    Parameters
    ----------
    layer
        A vLLM ``Attention`` layer with its cache bound.
    blocks
        Number of blocks in the cache.
    block_size
        Tokens a block.

    Raises
    ------
    EngineRefusedError
        The keys do not come back exactly once each: a quantized or an unknown cache.
    """
    cache: torch.Tensor = layer.kv_cache
    block_dim = list(cache.shape).index(blocks)
    shape = (block_size, layer.num_kv_heads, layer.head_size)
    offsets = _find(_Writer(layer, cache, block_dim, shape), shape)
    if offsets is None:
        raise EngineRefusedError(
            f"its key cache cannot be read back (dtype {cache.dtype}, backend "
            f"{layer.attn_backend.get_name()}): use an unquantized KV cache"
        )
    return KeyLayout(block_dim, offsets, _strided(offsets))


class _Writer:
    """Writes one block of keys through the backend and returns the block, flattened."""

    def __init__(
        self, layer: Any, cache: torch.Tensor, block_dim: int, shape: tuple[int, int, int]
    ) -> None:
        self._layer = layer
        block = list(cache.shape)
        block[block_dim] = 1
        self._block_dim = block_dim
        self._scratch = torch.zeros(block, dtype=cache.dtype, device=cache.device)
        self._slots = torch.arange(shape[0], dtype=torch.int64, device=cache.device)

    def __call__(self, keys: torch.Tensor) -> torch.Tensor:
        keys = keys.to(self._layer.dtype).to(self._scratch.device)
        values = torch.full_like(keys, -1.0)
        self._scratch.zero_()
        self._layer.impl.do_kv_cache_update(self._layer, keys, values, self._scratch, self._slots)
        return self._scratch.movedim(self._block_dim, 0).reshape(-1).to(torch.float32)


def _find(write: _Writer, shape: tuple[int, int, int]) -> torch.Tensor | None:
    """int64 [heads, tokens, elements] of flat places, or None where a marker is not found once."""
    marks = torch.arange(shape[0] * shape[1] * shape[2])
    found: torch.Tensor | None = None
    rest, place = marks, 1
    while place <= int(marks[-1]):
        block = write(((rest % _BASE) + 1).to(torch.float32).view(shape))
        digit = torch.where(block > 0, block.round().long() - 1, -1).cpu()
        if found is None:
            found = torch.where(digit >= 0, 0, -1)
        found = torch.where((found >= 0) & (digit >= 0), found + digit * place, -1)
        rest, place = rest // _BASE, place * _BASE
    if found is None:
        return None
    where = torch.nonzero(found >= 0).flatten()
    if not torch.equal(found[where].sort().values, marks):
        return None
    offsets = torch.empty_like(marks)
    offsets[found[where]] = where
    return offsets.view(shape).permute(1, 0, 2).contiguous()


def _strided(offsets: torch.Tensor) -> tuple[int, int, int] | None:
    """Strides of ``offsets`` if it is a plain strided view of the flattened block."""
    steps = []
    for dim in range(3):
        one = int(offsets.select(dim, min(1, offsets.shape[dim] - 1)).flatten()[0])
        steps.append(one - int(offsets[0, 0, 0]))
    grid = offsets[0, 0, 0] + sum(
        torch.arange(offsets.shape[dim]).view([-1 if d == dim else 1 for d in range(3)])
        * steps[dim]
        for dim in range(3)
    )
    return (steps[0], steps[1], steps[2]) if torch.equal(grid, offsets) else None
