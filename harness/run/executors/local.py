"""The local executor: engines run one after another in this process and are closed in between."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain

from harness.engines.base import EngineSpec
from harness.errors import HarnessError, UnsupportedError
from harness.run.cells import PlannedCell, by_examples
from harness.run.first_look import Clock
from harness.run.on_engine import OpenEngine, session_id
from harness.run.outcome import Stopped
from harness.run.pools import by_arm, pools
from harness.run.recording import Recorder


@dataclass(frozen=True)
class LocalExecutor:
    """Runs a plan on this machine."""

    def run(self, recorder: Recorder) -> None:
        """Run whatever is left of the recorder's plan."""
        plan, work = recorder.plan, recorder.work
        session, clock = session_id(), Clock(plan.first_look)
        for spec in plan.specs:
            if work.needs(spec):
                _on_engine(recorder, spec, session, clock)
        if clock.cut_short:
            recorder.progress.say(
                "the first look's minutes are over: the same command measures the latency blocks "
                "that are left"
            )


def _on_engine(recorder: Recorder, spec: EngineSpec, session: str, clock: Clock) -> None:
    """Run every outstanding cell of one engine."""
    plan = recorder.plan
    cells = [cell for cell in plan.cells if cell.spec == spec]
    with ExitStack() as stack:
        try:
            engine = OpenEngine.start(
                spec,
                plan.models,
                plan.tokenizer,
                stack,
                speculator=any("scorer" in cell.method.needs for cell in cells),
                longest=plan.longest if any(c.method.wants_rates for c in cells) else None,
                say=recorder.progress.say,
                session=session,
                clock=clock,
                alone=recorder.fail_fast,
            )
        except HarnessError as error:
            refused = isinstance(error, UnsupportedError) and not spec.is_plain
            recorder.stop_all(cells, error, refused=refused)
            return
        for pool in pools(plan.cells):
            _quality(recorder, engine, [cell for cell in pool if cell.spec == spec])
        recorder.work.unsupported = frozenset(recorder.store.unsupported_reasons())
        for cell in chain.from_iterable(map(chain.from_iterable, map(by_arm, by_examples(cells)))):
            _latency(recorder, engine, cell)


def _quality(recorder: Recorder, engine: OpenEngine, pool: list[PlannedCell]) -> None:
    pending = {cell.record.cell_id: recorder.work.pending(cell) for cell in pool}
    for event in engine.quality(pool, pending):
        if isinstance(event, Stopped):
            recorder.stop(event)
        else:
            recorder.quality([event])


def _latency(recorder: Recorder, engine: OpenEngine, cell: PlannedCell) -> None:
    if recorder.outcome.stopped(cell):
        return
    for event in engine.latency(recorder.work.timing(cell)):
        if isinstance(event, Stopped):
            recorder.stop(event)
        else:
            recorder.latency(event)
