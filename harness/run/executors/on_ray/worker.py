"""What runs on a node: one engine at a time, kept open for all its units.

A plain class, made an actor by the driver. It is pulled: each :meth:`Worker.advance` brings new
units and takes what has come in, so that a driver that is slow to write makes its workers wait
instead of filling memory.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING

from harness.errors import EngineDiedError, UnsupportedError
from harness.models.tokenizer import Tokenizer
from harness.run.executors.on_ray.checks import Facts, Needs, examine
from harness.run.executors.on_ray.messages import Chunk, Setting, Shard, Unit
from harness.run.first_look import Clock
from harness.run.on_engine import OpenEngine, session_id
from harness.run.outcome import Stopped, one_line
from harness.schema.receipts import Receipt
from harness.schema.records import LatencyRecord, QualityRecord

if TYPE_CHECKING:
    from harness.models.presets import ResolvedModels

CHUNK_S, CHUNK_RECORDS = 0.25, 32
"""A chunk goes back after so long, or with so many records."""

Event = QualityRecord | list[LatencyRecord] | Stopped


class Worker:
    """An engine on a node, and the units that wait for it."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._queue: deque[Unit] = deque()
        self._current: tuple[int, Iterator[Event]] | None = None
        self._drained = False
        self._doing = ""
        self._facts: Facts | None = None
        self._models: ResolvedModels | None = None
        self._engine: OpenEngine | None = None

    def examine(self, needs: Needs) -> Facts:
        """Compare this node with the driver."""
        self._facts, self._models = examine(needs)
        return self._facts

    def open(self, setting: Setting) -> tuple[str, bool] | None:
        """Start the engine.

        Returns
        -------
        Why it does not start, and whether the model is refused rather than the start failed; None
        where it runs.
        """
        assert self._models is not None, "a node that lacks something opens nothing"
        models = self._models
        _keep_to(setting.lane, setting.lanes)
        spec = setting.spec
        if spec.target == setting.target:
            spec = replace(spec, target=str(models.target))
        clock = Clock(setting.limited, perf_counter() - setting.elapsed_s)
        try:
            self._engine = OpenEngine.start(
                spec,
                models,
                Tokenizer.load(str(models.target)),
                self._stack,
                speculator=setting.speculator,
                longest=setting.longest,
                say=self._say,
                session=session_id(),
                clock=clock,
                alone=setting.alone,
            )
        except Exception as error:  # what it is must reach the driver, whatever it is
            self._stack.close()
            return one_line(error), isinstance(error, UnsupportedError)
        self._engine.go = lambda: not self._drained
        return None

    def advance(self, units: Sequence[Unit] = (), *, drain: bool = False) -> Chunk:
        """Take new units and go on for a while.

        Parameters
        ----------
        drain
            Finish what the engine holds and begin nothing more.
        """
        self._queue.extend(units)
        self._drained |= drain
        chunk, began = Chunk(), perf_counter()
        while self._begin():
            assert self._current is not None, "a unit has begun"
            number, events = self._current
            try:
                event = next(events, None)
            except Exception as error:  # no cell's own: the worker is not to be trusted further
                chunk.broken = one_line(error)
                break
            if event is None:
                self._current = None
                if not self._drained:
                    chunk.finished.append(number)
            elif isinstance(event, Stopped) and isinstance(event.error, EngineDiedError):
                chunk.broken = event.reason
                break
            else:
                self._add(event, chunk)
            if perf_counter() - began > CHUNK_S or chunk.size >= CHUNK_RECORDS:
                break
        chunk.doing = self._doing
        chunk.is_idle = self._current is None and (self._drained or not self._queue)
        chunk.cut_short = self._engine is not None and self._engine.clock.cut_short
        return chunk

    def close(self) -> None:
        """End the engine and its processes."""
        self._stack.close()
        self._engine = None

    def _begin(self) -> bool:
        """Whether there is a unit to go on with; takes the next where there is none."""
        if self._current is None and self._queue and not self._drained:
            unit = self._queue.popleft()
            self._current = unit.number, self._events(unit)
        return self._current is not None

    def _events(self, unit: Unit) -> Iterator[Event]:
        engine = self._engine
        assert engine is not None, "units come after the engine is open"
        if isinstance(unit, Shard):
            pending = {
                cell.record.cell_id: [
                    example
                    for example in cell.examples.examples
                    if example.record.example_id in unit.pending[cell.record.cell_id]
                ]
                for cell in unit.cells
            }
            yield from engine.quality(unit.cells, pending)
        else:
            for timing in unit.timings:
                yield from engine.latency(timing)

    def _add(self, event: Event, chunk: Chunk) -> None:
        if isinstance(event, Stopped):
            # An error may not survive the way; its line does.
            chunk.stopped.append(replace(event, error=None))
        elif isinstance(event, QualityRecord):
            chunk.quality.append(replace(event, receipt=self._placed(event.receipt)))
        else:
            placed = [replace(r, receipt=self._placed(r.receipt)) for r in event]
            chunk.blocks.append(placed)

    def _placed(self, receipt: Receipt) -> Receipt:
        """Add where the receipt was made."""
        assert self._facts is not None, "a worker knows its node"
        place = {
            "node": self._facts.node,
            "device": self._facts.device,
            "machine": self._facts.machine,
        }
        return replace(receipt, details={**receipt.details, "ran_on": place})

    def _say(self, what: str) -> None:
        self._doing = what


def _keep_to(lane: int, lanes: int) -> None:
    """Keep to one of equal shares of this node's cores.

    Engines on one node would otherwise bind their threads to the same cores, as each takes all
    that it may use.
    """
    if lanes < 2 or not hasattr(os, "sched_setaffinity"):
        return
    cores = sorted(os.sched_getaffinity(0))
    share = len(cores) // lanes
    if share and lane < lanes:
        os.sched_setaffinity(0, cores[lane * share : (lane + 1) * share])
