"""What became of a run's cells: what a session did, and why some cells did not run."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.errors import HarnessError, UnsupportedError
from harness.run.cells import PlannedCell


@dataclass(frozen=True, slots=True)
class Stopped:
    """A cell that did not run to its end.

    Attributes
    ----------
    reason
        One line.
    refused
        Whether it cannot run here (``unsupported``), rather than having failed.
    error
        What was raised, where it was raised in this process.
    """

    cell_id: str
    reason: str
    refused: bool = False
    error: Exception | None = None

    @classmethod
    def by(cls, cell: PlannedCell, error: Exception) -> Stopped:
        """Say that ``error`` ended a cell."""
        refused = isinstance(error, UnsupportedError)
        return cls(cell.record.cell_id, one_line(error), refused, error)


@dataclass
class Outcome:
    """What this session did, and which cells did not run, with the reason."""

    generated: int = 0
    timed: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    unsupported: dict[str, str] = field(default_factory=dict)

    def stopped(self, cell: PlannedCell) -> bool:
        """Whether a cell did not run to its end."""
        cell_id = cell.record.cell_id
        return cell_id in self.failed or cell_id in self.unsupported


def one_line(error: BaseException) -> str:
    """Say an error in one line; ours say all themselves."""
    known = isinstance(error, HarnessError)
    return " ".join((str(error) if known else f"{type(error).__name__}: {error}").split())[:500]
