"""The clock of a first look: a run whose size nobody has said ends its timing in time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from time import perf_counter

from harness.run.cells import PlannedCell
from harness.run.config import FIRST_LOOK_S
from harness.run.latency import ORDERS


@dataclass
class Clock:
    """Says when an arm begins no further latency block.

    Attributes
    ----------
    limited
        Whether the run is a first look; where somebody has said its size, time is never up.
    began
        When the run began, on this process's ``perf_counter``.
    cut_short
        Whether a block was left out because time was up.
    """

    limited: bool
    began: float = field(default_factory=perf_counter)
    cut_short: bool = False
    _blocks: Counter[tuple[object, ...]] = field(default_factory=Counter)

    def count(self, cell: PlannedCell) -> None:
        """Count a block of a cell."""
        self._blocks[_timed_together(cell)] += 1

    def is_up(self, cell: PlannedCell) -> bool:
        """Whether the minutes are used, and the cell's arm has a block of each order."""
        over = perf_counter() - self.began > FIRST_LOOK_S
        up = self.limited and over and self._blocks[_timed_together(cell)] >= len(ORDERS)
        self.cut_short |= up
        return up

    @property
    def elapsed_s(self) -> float:
        """Seconds since the run began."""
        return perf_counter() - self.began


def _timed_together(cell: PlannedCell) -> tuple[object, ...]:
    """Cells with equal keys share their speed-up: an arm's, over a group at one length."""
    record = cell.record
    return cell.spec, record.arm, record.group, record.length
