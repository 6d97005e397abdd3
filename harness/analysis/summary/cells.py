"""Which stored cells make one row: the same arm on the same task and length, over all its seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from harness.schema.records import CellRecord, CellStatus


@dataclass(frozen=True)
class PooledCell:
    """Cells that differ in their seeds only.

    Attributes
    ----------
    arm
        The arm's name without the seed that tells repetitions apart.
    """

    task: str
    length: int | None
    arm: str
    cells: tuple[CellRecord, ...]

    @property
    def first(self) -> CellRecord:
        """The cell that stands for what all share."""
        return self.cells[0]

    @property
    def is_reference(self) -> bool:
        """Whether this is full prefill, to which the others refer."""
        return self.first.method == "full"

    @property
    def seeds(self) -> tuple[int, ...]:
        """Data seeds, in the plan's order."""
        return tuple(dict.fromkeys(c.seed for c in self.cells))

    @property
    def stopped(self) -> CellRecord | None:
        """The first cell that failed or is unsupported, if any."""
        bad = (CellStatus.FAILED, CellStatus.UNSUPPORTED)
        return next((c for c in self.cells if c.status in bad), None)

    def at_seed(self, seed: int) -> PooledCell:
        """The same arm at one data seed."""
        return replace(self, cells=tuple(c for c in self.cells if c.seed == seed))

    def references(self, by_id: Mapping[str, CellRecord]) -> list[CellRecord]:
        """Full-prefill cells that these refer to: same engine, dtype, task, length and seed."""
        names = dict.fromkeys(c.reference_cell_id for c in self.cells)
        return [by_id[name] for name in names if name is not None and name in by_id]


def pooled_cells(cells: Sequence[CellRecord]) -> list[PooledCell]:
    """Group a run's cells, in the plan's order.

    Repetitions of a stochastic arm (``random-k10-m0``, ``random-k10-m1``) share their ``pool``:
    where more than one is there they are one arm of that name.
    """
    repeats: dict[str, set[int]] = {}
    for cell in cells:
        repeats.setdefault(cell.pool, set()).add(cell.method_seed)
    found: dict[tuple[str, int | None, str], list[CellRecord]] = {}
    for cell in cells:
        name = cell.pool if len(repeats[cell.pool]) > 1 else cell.arm
        found.setdefault((cell.task, cell.length, name), []).append(cell)
    return [PooledCell(*key, tuple(group)) for key, group in found.items()]
