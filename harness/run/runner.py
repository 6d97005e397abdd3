"""plan → run → append. Knows no method, task or engine by name.

Arms are grouped by the engine they need; engines run one after another and are closed in
between. Quality runs on every example, in batches, with speculator scores kept across keep
rates; latency runs on a subset, one request at a time, with nothing kept (DESIGN.md, rule 3).
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, takewhile
from time import perf_counter
from typing import Any

from harness.engines.base import Engine, EngineSpec
from harness.errors import HarnessError, UnsupportedError
from harness.methods.base import MethodContext
from harness.run.cells import PlannedCell, by_examples
from harness.run.config import FIRST_LOOK_S
from harness.run.latency import ORDERS, BlockPlan, measure_blocks, warm_up
from harness.run.opener import Opened, open_models
from harness.run.plan import Plan
from harness.run.pools import by_arm, pools
from harness.run.prefill_rates import measure_rates
from harness.run.progress import RunProgress
from harness.run.quality import QualityWork, run_quality
from harness.run.store import Store
from harness.run.work import Outstanding
from harness.schema.records import CellStatus


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


def execute(plan: Plan, store: Store, *, fail_fast: bool = False, quiet: bool = False) -> Outcome:
    """Run whatever of ``plan`` is not in ``store`` yet, and append it.

    A cell that fails is recorded with its reason and the others go on, unless ``fail_fast``.
    """
    work = Outstanding.of(plan, store)
    with RunProgress(work.units, work.requests, quiet=quiet) as progress:
        run = _Run(plan, store, work, progress, fail_fast)
        for spec in plan.specs:
            if work.needs(spec):
                run.on_engine(spec)
        if run.cut_short:
            progress.say(
                "the first look's minutes are over: the same command measures the latency blocks "
                "that are left"
            )
    run.settle()
    return run.outcome


@dataclass
class _Run:
    plan: Plan
    store: Store
    work: Outstanding
    progress: RunProgress
    fail_fast: bool
    outcome: Outcome = field(default_factory=Outcome)
    # Times of one session share a machine state, which the statistics need to know.
    session: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    began: float = field(default_factory=perf_counter)
    blocks: Counter[tuple[object, ...]] = field(default_factory=Counter)
    cut_short: bool = False

    def on_engine(self, spec: EngineSpec) -> None:
        """Run every outstanding cell of one engine."""
        with ExitStack() as stack:
            cells = [cell for cell in self.plan.cells if cell.spec == spec]
            try:
                opened = self._open(spec, cells, stack)
            except HarnessError as error:
                # Where it is full prefill's own engine that does not start, nothing can run.
                own = (spec.attention, spec.prefill) == ("dense", "standard")
                self._stop(cells, error, refused=not own and isinstance(error, UnsupportedError))
                return
            engine, rates = opened.engine, self._rates(opened, cells)
            assert engine is not None, "the runner opens the target"
            for pool in pools(self.plan.cells):
                # Scores are kept for the cells of one pool, then dropped: they are large.
                memo: dict[str, Any] = {}
                for alike in by_arm(cell for cell in pool if cell.spec == spec):
                    contexts = [self._context(cell, opened, rates, memo) for cell in alike]
                    self._quality(list(zip(alike, contexts, strict=True)), engine)
            self.work.unsupported = frozenset(self.store.unsupported_reasons())
            for group in by_examples(cells):
                for cell in chain.from_iterable(by_arm(group)):
                    context = self._context(cell, opened, rates)
                    self._attempt(cell, partial(self._latency, cell, context, engine))

    def _open(self, spec: EngineSpec, cells: Sequence[PlannedCell], stack: ExitStack) -> Opened:
        return open_models(
            spec,
            self.plan.models,
            self.plan.tokenizer,
            stack,
            speculator=any("scorer" in cell.method.needs for cell in cells),
            say=self.progress.say,
        )

    def _rates(self, opened: Opened, cells: Sequence[PlannedCell]) -> Mapping[str, float] | None:
        """Measure prefill rates where an arm of this engine asks for them."""
        asked = any(cell.method.wants_rates for cell in cells)
        if opened.engine is None or opened.scorer is None or not asked:
            return None
        self.progress.say("measuring prefill rates for the break-even guard")
        longest = max(
            (e.prompt for cell in self.plan.cells for e in cell.examples.examples),
            key=lambda prompt: len(prompt.token_ids),
        )
        return measure_rates(opened.engine, opened.scorer, longest)

    def _context(
        self,
        cell: PlannedCell,
        opened: Opened,
        rates: Mapping[str, float] | None,
        memo: dict[str, Any] | None = None,
    ) -> MethodContext:
        return opened.context(
            max_tokens=cell.max_tokens,
            method_seed=cell.record.method_seed,
            rates=rates,
            memo=memo,
        )

    def _quality(
        self, members: Sequence[tuple[PlannedCell, MethodContext]], engine: Engine
    ) -> None:
        """Run cells together; where that fails, each on its own, so that one fails alone."""
        members = [member for member in members if self.work.pending(member[0])]
        cells = [cell for cell, _ in members]
        if not cells:
            return
        tasks = list(dict.fromkeys(cell.record.task for cell in cells))
        what = tasks[0] if len(tasks) == 1 else f"{len(tasks)} tasks"
        self.progress.say(f"{what}, {cells[0].record.arm}")
        if len(cells) > 1 and not self.fail_fast:
            try:
                return self._generate(members, engine)
            except Exception as error:
                self.progress.say(f"{what} failed together ({_line(error)}): each goes alone")
        for cell, member in zip(cells, members, strict=True):
            self._attempt(cell, partial(self._generate, [member], engine))

    def _generate(
        self, members: Sequence[tuple[PlannedCell, MethodContext]], engine: Engine
    ) -> None:
        """Run what the cells still lack, also after an attempt that failed midway."""
        works = [QualityWork(cell, self.work.pending(cell), context) for cell, context in members]
        weights = {work.cell.record.cell_id: self.work.weight(work.cell) for work in works}
        for record in run_quality(works, engine):
            self.store.add_quality([record])
            self.work.pairs_done.add((record.cell_id, record.example_id))
            self.outcome.generated += record.text is not None
            self.progress.advance(weights[record.cell_id])

    def _latency(self, cell: PlannedCell, context: MethodContext, engine: Engine) -> None:
        done = self.work.blocks_done(cell)
        prompts = self.work.timed_prompts(cell)
        if len(done) >= len(prompts) or self._time_is_up(cell):
            return
        self.progress.say(f"{cell.record.task}, timing {cell.record.arm}")
        reference = self.plan.reference_of(cell)
        blocks = BlockPlan(
            cell_id=cell.record.cell_id,
            method=cell.method,
            context=context,
            reference=None if reference is None else reference.method,
            session=self.session,
            before=self.plan.blocks_before(cell),
        )
        if self.work.first_timing(cell):
            warm_up(engine, blocks, prompts[0])
        in_time = takewhile(lambda _: not self._time_is_up(cell), prompts)
        for records in measure_blocks(engine, blocks, in_time, done):
            self.store.add_latency(records)
            self.outcome.timed += len(records)
            self.blocks[_timed_together(cell)] += 1
            self.progress.advance(self.work.block_weight(cell), 4)

    def _time_is_up(self, cell: PlannedCell) -> bool:
        """Whether a first look has used its minutes, and this arm has a block of each order."""
        over = perf_counter() - self.began > FIRST_LOOK_S
        enough = self.blocks[_timed_together(cell)] >= len(ORDERS)
        is_up = self.plan.first_look and over and enough
        self.cut_short |= is_up
        return is_up

    def _attempt(self, cell: PlannedCell, step: Callable[[], None]) -> None:
        if self.outcome.stopped(cell):
            return
        try:
            step()
        except Exception as error:  # a cell's fault must not lose the other cells
            self._stop([cell], error, refused=isinstance(error, UnsupportedError))

    def _stop(self, cells: list[PlannedCell], error: Exception, *, refused: bool) -> None:
        """Record cells that cannot run here as unsupported, others as failed, with the reason."""
        line = _line(error)
        status = CellStatus.UNSUPPORTED if refused else CellStatus.FAILED
        found = self.outcome.unsupported if refused else self.outcome.failed
        for cell in cells:
            found[cell.record.cell_id] = line
            self.store.set_cell_status(cell.record.cell_id, status, line)
            self.progress.say(f"{cell.record.task}, {cell.record.arm} {status}: {line}")
        if self.fail_fast and not refused:
            raise error

    def settle(self) -> None:
        """Give every cell that ran its final status."""
        reasons = self.store.unsupported_reasons()
        for cell in self.plan.cells:
            cell_id = cell.record.cell_id
            if not self.outcome.stopped(cell):
                reason = reasons.get(cell_id)
                status = CellStatus.DONE if reason is None else CellStatus.UNSUPPORTED
                self.store.set_cell_status(cell_id, status, reason)


def _timed_together(cell: PlannedCell) -> tuple[object, ...]:
    """Cells with equal keys share their speed-up: an arm's, over a group at one length."""
    record = cell.record
    return cell.spec, record.arm, record.group, record.length


def _line(error: Exception) -> str:
    """Say an error in one line; ours say all themselves."""
    known = isinstance(error, HarnessError)
    return " ".join((str(error) if known else f"{type(error).__name__}: {error}").split())[:500]
