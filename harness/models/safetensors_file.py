"""Write a safetensors file tensor by tensor, with zero tensors as holes that take no disk."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from os import SEEK_CUR
from pathlib import Path
from typing import BinaryIO

ITEM_BYTES = {"F32": 4, "BF16": 2, "F16": 2}


@dataclass(frozen=True)
class TensorPlan:
    """One tensor to write: its safetensors dtype, shape, and bytes; None means all zeros."""

    dtype: str
    shape: tuple[int, ...]
    read: Callable[[], bytes] | None

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return ITEM_BYTES[self.dtype] * prod(self.shape)


def write(path: Path, tensors: Mapping[str, TensorPlan]) -> None:
    """Write ``tensors`` in their order.

    The format (https://huggingface.co/docs/safetensors): a little-endian u64 header length, a
    JSON header of dtype, shape and data offsets, then the data without gaps. Zeros are skipped
    over with ``seek``, which leaves holes on file systems that have them.
    """
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, plan in tensors.items():
        header[name] = {
            "dtype": plan.dtype,
            "shape": list(plan.shape),
            "data_offsets": [offset, offset + plan.nbytes],
        }
        offset += plan.nbytes
    raw = json.dumps(header).encode()
    raw += b" " * (-len(raw) % 8)  # readers map the data with 8-byte alignment
    with path.open("wb") as file:
        file.write(len(raw).to_bytes(8, "little"))
        file.write(raw)
        for name, plan in tensors.items():
            _write_one(file, name, plan)
        file.truncate(8 + len(raw) + offset)


def _write_one(file: BinaryIO, name: str, plan: TensorPlan) -> None:
    if plan.read is None:
        file.seek(plan.nbytes, SEEK_CUR)
        return
    data = plan.read()
    if len(data) != plan.nbytes:
        raise ValueError(f"{name}: {len(data)} bytes for shape {plan.shape} of {plan.dtype}")
    file.write(data)
