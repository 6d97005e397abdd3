"""The single writer: events of a run go into its store, its outcome and its progress."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from harness.errors import HarnessError
from harness.run.cells import PlannedCell
from harness.run.outcome import Outcome, Stopped
from harness.run.plan import Plan
from harness.run.progress import RunProgress
from harness.run.store import Store
from harness.run.work import Outstanding
from harness.schema.records import CellStatus, LatencyRecord, QualityRecord


@dataclass
class Recorder:
    """Writes what comes in, each thing once, whoever sends it again.

    Attributes
    ----------
    fail_fast
        Whether the first failed cell ends the run, with its own error.
    """

    plan: Plan
    store: Store
    work: Outstanding
    progress: RunProgress
    fail_fast: bool = False
    outcome: Outcome = field(default_factory=Outcome)

    def quality(self, records: Iterable[QualityRecord]) -> None:
        """Store quality records, together; a pair that is stored already is left out.

        Raises
        ------
        StoreError
            The disk takes no more; nothing of ``records`` is written or counted then.
        """
        cell_of, work = self.plan.cell, self.work
        fresh = [r for r in records if work.is_pending(cell_of(r.cell_id), r.example_id)]
        self.store.add_quality(fresh)
        for record in fresh:
            cell = cell_of(record.cell_id)
            if work.mark(cell, record.example_id):
                self.outcome.generated += record.text is not None
                self.progress.advance(work.weight(cell))

    def latency(self, records: Iterable[LatencyRecord]) -> None:
        """Store a latency block; a block without records is one that the method refused."""
        block = list(records)
        if not block:
            return
        cell = self.plan.cell(block[0].cell_id)
        if self.work.is_timed(cell, block[0].block):
            return
        self.store.add_latency(block)
        self.work.mark_block(cell, block[0].block)
        self.outcome.timed += len(block)
        self.progress.advance(self.work.block_weight(cell), 4)

    def stop(self, stopped: Stopped) -> None:
        """Record a cell that cannot run here as unsupported, another as failed.

        Raises
        ------
        Exception
            The cell's own error, where a failed cell ends the run.
        """
        cell = self.plan.cell(stopped.cell_id)
        status = CellStatus.UNSUPPORTED if stopped.refused else CellStatus.FAILED
        found = self.outcome.unsupported if stopped.refused else self.outcome.failed
        found[stopped.cell_id] = stopped.reason
        self.store.set_cell_status(stopped.cell_id, status, stopped.reason)
        self.progress.say(f"{cell.record.task}, {cell.record.arm} {status}: {stopped.reason}")
        if self.fail_fast and not stopped.refused:
            raise stopped.error or HarnessError(stopped.reason)

    def stop_all(self, cells: Iterable[PlannedCell], error: Exception, *, refused: bool) -> None:
        """Stop cells for one reason: their engine does not start."""
        for cell in cells:
            stopped = Stopped.by(cell, error)
            self.stop(Stopped(stopped.cell_id, stopped.reason, refused, error))

    def settle(self) -> None:
        """Give every cell that ran its final status."""
        reasons = self.store.unsupported_reasons()
        found = []
        for cell in self.plan.cells:
            cell_id = cell.record.cell_id
            if not self.outcome.stopped(cell):
                reason = reasons.get(cell_id)
                status = CellStatus.DONE if reason is None else CellStatus.UNSUPPORTED
                found.append((cell_id, status, reason))
        self.store.set_cell_statuses(found)
