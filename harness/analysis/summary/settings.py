"""Which cells make one row: the same arm on the same task and length, over all its seeds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from harness.schema.records import CellRecord, CellStatus


@dataclass(frozen=True)
class Setting:
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

    def at_seed(self, seed: int) -> Setting:
        """The same arm at one data seed."""
        cells = tuple(c for c in self.cells if c.seed == seed)
        return Setting(self.task, self.length, self.arm, cells)


def settings_of(cells: Sequence[CellRecord]) -> list[Setting]:
    """Group a run's cells, in the plan's order.

    Repetitions of a stochastic arm are named ``random-k10-m0``, ``random-k10-m1``: where more
    than one is there they are one arm, ``random-k10``.
    """
    stems = [_without_method_seed(cell) for cell in cells]
    repeats: dict[str, set[int]] = {}
    for cell, stem in zip(cells, stems, strict=True):
        repeats.setdefault(stem, set()).add(cell.method_seed)
    found: dict[tuple[str, int | None, str], list[CellRecord]] = {}
    for cell, stem in zip(cells, stems, strict=True):
        name = stem if len(repeats[stem]) > 1 else cell.arm
        found.setdefault((cell.task, cell.length, name), []).append(cell)
    return [Setting(*key, tuple(group)) for key, group in found.items()]


def _without_method_seed(cell: CellRecord) -> str:
    # A name may end in the engine where that is not the run's own: random-k10-m0@hf.
    return re.sub(rf"-m{cell.method_seed}(?=@|$)", "", cell.arm)
