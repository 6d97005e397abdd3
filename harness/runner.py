"""plan → run → append. Knows no method, task or engine by name.

Arms are grouped by the engine they need; engines run one after another and are closed in
between. Quality runs on every example, in batches, with speculator scores kept across keep
rates; latency runs on a subset, one request at a time, with nothing kept (DESIGN.md, rule 3).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

from harness.engines import open_engine, open_scorer
from harness.engines.base import Engine, EngineSpec
from harness.errors import HarnessError
from harness.latency import BlockPlan, measure_blocks, uncached, warm_up
from harness.methods.base import MethodContext
from harness.plan import Plan, PlannedCell, Workload
from harness.progress import RunProgress
from harness.quality import run_quality
from harness.rates import measure_rates
from harness.records import CellStatus
from harness.specprefill.scorer import Scorer
from harness.store import Store
from harness.work import Outstanding


@dataclass
class Outcome:
    """What this session did: generations, timed requests, and the cells that failed."""

    generated: int = 0
    timed: int = 0
    failed: dict[str, str] = field(default_factory=dict)


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

    def on_engine(self, spec: EngineSpec) -> None:
        """Run every outstanding cell of one engine."""
        with ExitStack() as stack:
            try:
                engine, scorer = self._open(spec, stack)
            except HarnessError as error:
                self._fail([c for c in self.plan.cells if c.spec == spec], error)
                return
            rates = self._rates(spec, engine, scorer)
            # Handles that methods make (a retriever, a compressor) live as long as the engine.
            handles: dict[str, object] = {}
            for workload in self.plan.workloads:
                kept = dict(handles)
                for cell in _most_work_first(workload, spec):
                    context = self._context(cell, workload, scorer, kept, rates)
                    self._attempt(cell, partial(self._quality, cell, context, engine))
                handles = uncached(kept)
            self.work.unsupported = frozenset(self.store.unsupported_reasons())
            for workload in self.plan.workloads:
                for cell in _most_work_first(workload, spec):
                    context = self._context(cell, workload, scorer, handles, rates)
                    self._attempt(cell, partial(self._latency, cell, context, engine))

    def _open(self, spec: EngineSpec, stack: ExitStack) -> tuple[Engine, Scorer | None]:
        self.progress.say(f"starting the target on {spec.engine}, {spec.dtype}")
        engine = stack.enter_context(open_engine(spec))
        if not any("scorer" in c.method.needs for c in self.plan.cells if c.spec == spec):
            return engine, None
        self.progress.say("starting the speculator")
        models = self.plan.models
        scorer = open_scorer(
            EngineSpec(
                engine=spec.engine,
                target=str(models.speculator),
                dtype=spec.dtype,
                max_model_len=models.speculator_max_positions,
            )
        )
        stack.callback(scorer.close)
        return engine, scorer

    def _rates(
        self, spec: EngineSpec, engine: Engine, scorer: Scorer | None
    ) -> Mapping[str, float] | None:
        """Measure prefill rates where an arm of this engine asks for them."""
        cells = [cell for cell in self.plan.cells if cell.spec == spec]
        if scorer is None or not any(getattr(c.method, "wants_rates", False) for c in cells):
            return None
        self.progress.say("measuring prefill rates for the break-even guard")
        longest = max(
            (e.prompt for w in self.plan.workloads for e in w.examples.examples),
            key=lambda prompt: len(prompt.token_ids),
        )
        return measure_rates(engine, scorer, longest)

    def _context(
        self,
        cell: PlannedCell,
        workload: Workload,
        scorer: Scorer | None,
        resources: dict[str, object],
        rates: Mapping[str, float] | None,
    ) -> MethodContext:
        return MethodContext(
            tokenizer=self.plan.tokenizer,
            scorer=scorer,
            speculator=str(self.plan.models.speculator),
            max_positions=self.plan.models.max_positions,
            max_tokens=workload.max_tokens,
            method_seed=cell.record.method_seed,
            rates=rates,
            resources=resources,
        )

    def _quality(self, cell: PlannedCell, context: MethodContext, engine: Engine) -> None:
        workload = self.plan.workload_of(cell)
        pending = self.work.pending(cell, workload)
        if not pending:
            return
        self.progress.say(f"{cell.record.task}, {cell.record.arm}")
        for record in run_quality(cell, workload.examples, pending, engine, context):
            self.store.add_quality([record])
            self.outcome.generated += record.text is not None
            self.progress.advance(self.work.weight(cell))

    def _latency(self, cell: PlannedCell, context: MethodContext, engine: Engine) -> None:
        workload = self.plan.workload_of(cell)
        done = self.work.blocks_done(cell)
        prompts = self.work.timed_prompts(cell, workload)
        if len(done) >= len(prompts):
            return
        self.progress.say(f"{cell.record.task}, timing {cell.record.arm}")
        reference = self.plan.reference_of(cell)
        blocks = BlockPlan(
            cell_id=cell.record.cell_id,
            method=cell.method,
            context=context,
            reference=None if reference is None else reference.method,
            session=self.session,
        )
        if self.work.first_timing(cell):
            warm_up(engine, blocks, prompts[0])
        for records in measure_blocks(engine, blocks, prompts, done):
            self.store.add_latency(records)
            self.outcome.timed += len(records)
            self.progress.advance(self.work.block_weight(cell), 4)

    def _attempt(self, cell: PlannedCell, step: Callable[[], None]) -> None:
        if cell.record.cell_id in self.outcome.failed:
            return
        try:
            step()
        except HarnessError as error:
            self._fail([cell], error)
        except Exception as error:  # a cell's fault must not lose the other cells
            self._fail([cell], error)

    def _fail(self, cells: list[PlannedCell], error: Exception) -> None:
        reason = (
            str(error) if isinstance(error, HarnessError) else f"{type(error).__name__}: {error}"
        )
        for cell in cells:
            line = " ".join(reason.split())[:500]
            self.outcome.failed[cell.record.cell_id] = line
            self.store.set_cell_status(cell.record.cell_id, CellStatus.FAILED, line)
            self.progress.say(f"{cell.record.task}, {cell.record.arm} failed: {line}")
        if self.fail_fast:
            raise error

    def settle(self) -> None:
        """Give every cell that did not fail its final status."""
        reasons = self.store.unsupported_reasons()
        for cell in self.plan.cells:
            cell_id = cell.record.cell_id
            if cell_id not in self.outcome.failed:
                reason = reasons.get(cell_id)
                status = CellStatus.DONE if reason is None else CellStatus.UNSUPPORTED
                self.store.set_cell_status(cell_id, status, reason)


def _most_work_first(workload: Workload, spec: EngineSpec) -> list[PlannedCell]:
    """Cells of one engine, longest look-ahead first, so that its scores serve the others."""
    cells = [cell for cell in workload.cells if cell.spec == spec]
    return sorted(cells, key=lambda cell: -(cell.record.look_ahead or 0))
