"""The driver process's side of the pipe: what it finds goes to the process that has the store.

Ray ends a process whose head or node dies under it, from C++ and without asking. So what talks
to Ray is a process of its own, and the one that writes outlives it.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection
from typing import Any

from harness.engines.vllm.cpu import debugging
from harness.errors import HarnessError
from harness.run.cells import PlannedCell
from harness.run.executors.on_ray.cluster import ClusterLostError
from harness.run.outcome import Stopped, one_line
from harness.run.progress import RunProgress
from harness.run.recording import Recorder
from harness.schema.records import LatencyRecord, QualityRecord

DRAIN = "drain"
"""Sent to the driver process: finish what is running and begin nothing more."""


class Relay(Recorder):
    """A recorder without a store: it keeps count, and sends what is new.

    A full pipe makes it wait for the writer, and with it the workers that it asks.
    """

    def __init__(self, recorder: Recorder, pipe: Connection) -> None:
        super().__init__(
            recorder.plan,
            recorder.store,
            recorder.work,
            _Told(pipe),
            recorder.fail_fast,
            recorder.outcome,
        )
        self._pipe = pipe
        self._draining = False

    def quality(self, records: Iterable[QualityRecord]) -> None:
        """Send the records of pairs that are still pending."""
        fresh = []
        for record in records:
            if self.work.mark(self.plan.cell(record.cell_id), record.example_id):
                fresh.append(record)
        if fresh:
            self._pipe.send(("quality", fresh))

    def latency(self, records: Iterable[LatencyRecord]) -> None:
        """Send a block that is still to be measured."""
        block = list(records)
        if not block:
            return
        cell = self.plan.cell(block[0].cell_id)
        if not self.work.is_timed(cell, block[0].block):
            self.work.mark_block(cell, block[0].block)
            self._pipe.send(("latency", block))

    def stop(self, stopped: Stopped) -> None:
        """Send a cell that has stopped; its error stays here."""
        found = self.outcome.unsupported if stopped.refused else self.outcome.failed
        found[stopped.cell_id] = stopped.reason
        line = Stopped(stopped.cell_id, stopped.reason, stopped.refused)
        self._pipe.send(("stop", line))

    def stop_all(self, cells: Iterable[PlannedCell], error: Exception, *, refused: bool) -> None:
        """Send cells that stop for one reason."""
        for cell in cells:
            self.stop(Stopped(cell.record.cell_id, one_line(error), refused))

    def send(self, kind: str, value: Any) -> None:
        """Send another fact."""
        self._pipe.send((kind, value))

    def unsupported(self) -> frozenset[str]:
        """Cells that their method does not support, once all that was sent is written."""
        self._pipe.send(("unsupported", None))
        while (answer := self._pipe.recv()) == DRAIN:
            self._draining = True
        found: frozenset[str] = answer
        return found

    def is_draining(self) -> bool:
        """Whether the writer asks for an end."""
        while not self._draining and self._pipe.poll():
            self._draining = self._pipe.recv() == DRAIN
        return self._draining


class _Told(RunProgress):
    """Progress that is shown elsewhere."""

    def __init__(self, pipe: Connection) -> None:
        super().__init__(0.0, 0, quiet=True)
        self._pipe = pipe

    def say(self, what: str) -> None:
        self._pipe.send(("say", what))

    def doing(self, what: str) -> None:
        self._pipe.send(("doing", what))

    def crew(self, at_work: int, workers: int, queued: int) -> None:
        self._pipe.send(("crew", (at_work, workers, queued)))


def guarded(pipe: Connection, session: Callable[[], None]) -> None:
    """Run a session and send how it ended: ``done``, ``lost`` or ``error``."""
    try:
        session()
    except ClusterLostError as error:
        pipe.send(("lost", str(error)))
    except HarnessError as error:
        pipe.send(("error", (str(error), int(error.code))))
    except (BrokenPipeError, EOFError):
        pass  # the writer has gone, and takes no more
    except Exception as error:
        if debugging():
            traceback.print_exc()
        pipe.send(("error", (f"{one_line(error)} (this is a bug; HARNESS_DEBUG=1 shows where)", 2)))
    else:
        pipe.send(("done", None))
