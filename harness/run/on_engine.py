"""What is run on one open engine: quality in pools, latency in blocks.

It yields records as they come in and says which cells stopped; it knows no store, so that it
runs wherever an executor opens an engine.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from harness.engines.base import Engine, EngineSpec
from harness.methods.base import MethodContext
from harness.run.cells import PlannedCell
from harness.run.first_look import Clock
from harness.run.latency import BlockPlan, measure_blocks, warm_up
from harness.run.opener import Opened, open_models
from harness.run.outcome import Stopped, one_line
from harness.run.pools import by_arm
from harness.run.prefill_rates import measure_rates
from harness.run.quality import QualityWork, run_quality
from harness.run.work import Timing
from harness.schema.prompts import Prompt
from harness.schema.records import LatencyRecord, QualityRecord

if TYPE_CHECKING:
    from harness.models.presets import ResolvedModels
    from harness.models.tokenizer import Tokenizer
    from harness.tasks.examples import Example

Say = Callable[[str], None]


def session_id() -> str:
    """Name what shares a machine's state; the statistics of times need to know it."""
    return uuid.uuid4().hex[:12]


@dataclass
class OpenEngine:
    """An open engine with what its methods need.

    Attributes
    ----------
    rates
        Measured prefill rates, where an arm asks for them.
    clock
        Says when a first look times no more.
    alone
        Whether cells run one by one from the start, so that the first fault is a cell's own.
    go
        Asked before each prompt; where it says no, what the engine already holds is finished.
    """

    opened: Opened
    rates: Mapping[str, float] | None
    session: str
    clock: Clock
    say: Say
    alone: bool = False
    go: Callable[[], bool] = lambda: True
    _warm: set[str] = field(default_factory=set)

    @classmethod
    def start(
        cls,
        spec: EngineSpec,
        models: ResolvedModels,
        tokenizer: Tokenizer,
        stack: ExitStack,
        *,
        speculator: bool,
        longest: Prompt | None,
        say: Say,
        session: str,
        clock: Clock,
        alone: bool = False,
    ) -> OpenEngine:
        """Start target and speculator, and measure their rates.

        Parameters
        ----------
        speculator
            Whether any cell needs its scores.
        longest
            The prompt to measure prefill rates with; None where no arm asks for rates.

        Raises
        ------
        HarnessError
            A model does not start, in one line.
        """
        opened = open_models(spec, models, tokenizer, stack, speculator=speculator, say=say)
        rates = None
        if longest is not None and opened.engine is not None and opened.scorer is not None:
            say("measuring prefill rates for the break-even guard")
            rates = measure_rates(opened.engine, opened.scorer, longest)
        return cls(opened, rates, session, clock, say, alone)

    @property
    def engine(self) -> Engine:
        """The target."""
        assert self.opened.engine is not None, "an open engine has its target"
        return self.opened.engine

    def quality(
        self, cells: Sequence[PlannedCell], pending: Mapping[str, Sequence[Example]]
    ) -> Iterator[QualityRecord | Stopped]:
        """Run a pool of cells, arm by arm; scores are kept for the pool, then dropped.

        Parameters
        ----------
        pending
            Examples to run, by cell id.
        """
        memo: dict[str, Any] = {}
        for alike in by_arm(cells):
            works = [
                QualityWork(cell, pending[cell.record.cell_id], self._context(cell, memo))
                for cell in alike
                if pending.get(cell.record.cell_id)
            ]
            if works:
                yield from self._together(works)

    def _together(self, works: Sequence[QualityWork]) -> Iterator[QualityRecord | Stopped]:
        """Run cells together; where that fails, each on its own, so that one fails alone."""
        tasks = list(dict.fromkeys(work.cell.record.task for work in works))
        what = tasks[0] if len(tasks) == 1 else f"{len(tasks)} tasks"
        self.say(f"{what}, {works[0].cell.record.arm}")
        done: set[tuple[str, str]] = set()
        if len(works) > 1 and not self.alone:
            try:
                for record in run_quality(works, self.engine, self.go):
                    done.add((record.cell_id, record.example_id))
                    yield record
            except Exception as error:
                self.say(f"{what} failed together ({one_line(error)}): each goes alone")
            else:
                return
        for work in works:
            cell_id = work.cell.record.cell_id
            left = [e for e in work.pending if (cell_id, e.record.example_id) not in done]
            try:
                yield from run_quality(
                    [QualityWork(work.cell, left, work.context)], self.engine, self.go
                )
            except Exception as error:  # a cell's fault must not lose the other cells
                yield Stopped.by(work.cell, error)

    def latency(self, timing: Timing) -> Iterator[list[LatencyRecord] | Stopped]:
        """Measure the blocks of a cell that are left, each as its four records."""
        cell = timing.cell
        if timing.left < 1 or self.clock.is_up(cell):
            return
        self.say(f"{cell.record.task}, timing {cell.record.arm}")
        blocks = BlockPlan(
            cell_id=cell.record.cell_id,
            method=cell.method,
            context=self._context(cell),
            reference=timing.reference,
            session=self.session,
            before=timing.before,
        )
        in_time = takewhile(lambda _: self.go() and not self.clock.is_up(cell), timing.prompts)
        try:
            if cell.record.arm not in self._warm:  # the arm's first timing on its engine
                self._warm.add(cell.record.arm)
                warm_up(self.engine, blocks, timing.prompts[0])
            for records in measure_blocks(self.engine, blocks, in_time, set(timing.done)):
                self.clock.count(cell)
                yield records
        except Exception as error:
            yield Stopped.by(cell, error)

    def _context(self, cell: PlannedCell, memo: dict[str, Any] | None = None) -> MethodContext:
        return self.opened.context(
            max_tokens=cell.max_tokens,
            method_seed=cell.record.method_seed,
            rates=self.rates,
            memo=memo,
        )
