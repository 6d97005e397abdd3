"""From a store to rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from harness.analysis.floor import is_floor
from harness.analysis.stats.holm import holm
from harness.analysis.summary import notes
from harness.analysis.summary.categories import category_means
from harness.analysis.summary.cells import PooledCell, pooled_cells
from harness.analysis.summary.counting import is_counting
from harness.analysis.summary.quality import MacroPart, QualityEstimates, printed
from harness.analysis.summary.rivals import Side, rival_comparisons
from harness.analysis.summary.row import Figures, RowMaker, counts
from harness.analysis.summary.scores import RunScores, Scores, concatenate
from harness.analysis.summary.timing import RunTiming
from harness.schema.rows import RivalComparison, Row, RunSummary, Without

if TYPE_CHECKING:
    import pandas as pd

    from harness.run.store import Store


def summarize(store: Store, *, bca_seed: int | None = None) -> RunSummary:
    """Summarize a run.

    Parameters
    ----------
    store
        An open store; nothing is written to it.
    bca_seed
        Show BCa bootstrap intervals with this seed instead; p-values and remarks keep the
        jackknife's (:mod:`harness.analysis.stats.bca` says why).

    Returns
    -------
    RunSummary
        Pooled group rows first (where a group has several tasks in the run), then a row an arm
        for each task and length, and a row a data seed where there are several.

    Raises
    ------
    StoreError
        Records that do not belong together, or scores outside [0, 1].
    """
    run = store.run()
    builder = _Builder(store, bca_seed)
    rows = builder.rows()
    return RunSummary(
        run=run.run_id,
        path=str(store.folder),
        arms=tuple(rows),
        categories=tuple(category_means(rows)),
        rival_comparisons=tuple(builder.rivals()),
    )


@dataclass(frozen=True)
class _Task:
    """One arm at one task and length, with what its row is made of."""

    cell: PooledCell
    reference: Scores | None
    figures: Figures
    p_holm: float | None = None

    @property
    def counting(self) -> bool:
        """Whether the task counts."""
        return is_counting(self.cell.task, self.cell.first.category)


class _Builder:
    """Reads a store once and makes every row from it."""

    def __init__(self, store: Store, bca_seed: int | None) -> None:
        self.store = store
        self.scores = RunScores(store)
        self.quality = QualityEstimates(self.scores, bca_seed)
        self.timing = RunTiming(store)
        self.all_cells = store.cells()
        self.row = RowMaker(store, self.scores, self.timing, self.all_cells)
        self.by_id = {cell.cell_id: cell for cell in self.all_cells}
        examples = self.scores.examples
        self.expected = Counter(
            zip(examples["task"], _lengths(examples), examples["seed"], strict=True)
        )

    @cached_property
    def tasks(self) -> list[_Task]:
        """Every arm at every task and length, with p-values after Holm."""
        return _with_holm([self._task(cell) for cell in pooled_cells(self.all_cells)])

    def _at_floor(self, task: _Task) -> bool:
        """Whether the model cannot do the task at any length: a curve keeps its tasks."""
        first = task.cell.first
        return (first.group, first.task) in self._floors

    @cached_property
    def _floors(self) -> set[tuple[str, str]]:
        firsts = (t.cell.first for t in self.tasks if t.figures.floor)
        return {(first.group, first.task) for first in firsts}

    def rivals(self) -> list[RivalComparison]:
        """Pruning arms against each other, at the same keep rate."""
        sides = [Side(t.cell, t.figures.scores) for t in self.tasks if not t.figures.floor]
        return rival_comparisons(sides, self.scores)

    def rows(self) -> list[Row]:
        """Every row, pooled ones first."""
        tasks = self.tasks
        rows = self._group_rows(tasks)
        for task in tasks:
            rows.append(self._task_row(task, "task"))
            seeds = task.cell.seeds
            if len(seeds) > 1:
                for seed in seeds:
                    part = self._task(task.cell.at_seed(seed))
                    # Whether the model can do a task is decided once, on all of its examples.
                    figures = replace(part.figures, floor=task.figures.floor)
                    rows.append(self._task_row(replace(part, figures=figures), "seed"))
        return rows

    # -- one task --------------------------------------------------------------------------

    def _task(self, cell: PooledCell) -> _Task:
        scores = self.scores.of(cell.cells)
        found = cell.references(self.by_id)
        reference = self.scores.of(found) if found else None
        base = scores if cell.is_reference else reference
        why = None
        if cell.stopped is not None:
            why = cell.stopped.reason or str(cell.stopped.status)
        figures = Figures(
            scores,
            self.quality.score(scores, why),
            None if reference is None else self.quality.delta(scores, reference, why),
            base is not None
            and is_floor(base.values, self.scores.clusters_of(base.codes), cell.first.metric),
            (self._incomplete(cell), self._not_active(cell)),
        )
        return _Task(cell, reference, figures)

    def _task_row(self, task: _Task, level: str) -> Row:
        cells = task.cell.cells
        return self.row.make(
            cells,
            task.figures,
            task.p_holm,
            after=self.row.accepted(cells),
            level=level,
            arm=task.cell.arm,
            task=task.cell.task,
            length=task.cell.length,
            counting=task.counting,
            category=task.cell.first.category,
        )

    def _incomplete(self, cell: PooledCell) -> str | None:
        due = sum(self.expected[(c.task, c.length, c.seed)] for c in cell.cells)
        return notes.incomplete(cell, len(self.scores.records(cell.cells)), due)

    def _not_active(self, cell: PooledCell) -> str | None:
        return notes.not_active(counts(self.timing.requests(cell.cells, ())["status"]))

    # -- groups ----------------------------------------------------------------------------

    def _group_rows(self, tasks: Sequence[_Task]) -> list[Row]:
        """Pool each arm over its group's tasks at one length."""
        groups: dict[tuple[str, int | None], list[_Task]] = {}
        for task in tasks:
            key = (task.cell.first.group, task.cell.length)
            groups.setdefault(key, []).append(task)
        rows = []
        for members in groups.values():
            names = list(dict.fromkeys(task.cell.task for task in members))
            if len(names) > 1:
                by_arm: dict[str, list[_Task]] = {}
                for task in members:
                    by_arm.setdefault(task.cell.arm, []).append(task)
                rows += [self._group_row(names, arms) for arms in by_arm.values()]
        return rows

    def _group_row(self, names: Sequence[str], tasks: Sequence[_Task]) -> Row:
        """Pool an arm over every task of its group: what a benchmark publishes is over all."""
        first, cells = tasks[0].cell, tuple(c for t in tasks for c in t.cell.cells)
        finished = {t.cell.task for t in tasks if t.cell.stopped is None}
        lacking = notes.no_result([name for name in names if name not in finished])
        floors = [t.cell.task for t in tasks if t.figures.floor]
        figures = self._pooled(tasks, lacking)
        said = (lacking, notes.floors_in_pool(floors, len(tasks)))
        able = tasks if lacking is None else ()
        return self.row.make(
            cells,
            replace(figures, notes=said),
            None,
            level="group",
            arm=first.arm,
            task=first.first.group,
            length=first.length,
            counting=all(t.counting for t in tasks),
            category=first.first.group,
            tasks=tuple(t.cell.task for t in tasks),
            macro=self.quality.macro(
                first.first.group,
                [
                    MacroPart(t.cell.task, t.cell.first.category, t.figures.scores, t.reference)
                    for t in tasks
                ],
                lacking,
            ),
            without_floor=self._without(able, self._at_floor),
            without_counting=self._without(able, lambda t: t.counting),
        )

    def _pooled(self, tasks: Sequence[_Task], lacking: str | None = None) -> Figures:
        """Figures over the examples of some tasks, each example weighing alike."""
        scores = concatenate([t.figures.scores for t in tasks])
        references = [t.reference for t in tasks if t.reference is not None]
        delta = None
        if len(references) == len(tasks):
            delta = self.quality.delta(scores, concatenate(references), lacking)
        floor = all(t.figures.floor for t in tasks)
        return Figures(scores, self.quality.score(scores, lacking), delta, floor)

    def _without(self, tasks: Sequence[_Task], drop: Callable[[_Task], bool]) -> Without | None:
        """Figures without some of the tasks; None where there are none of them, or no others."""
        others = [task for task in tasks if not drop(task)]
        if not others or len(others) == len(tasks):
            return None
        found = self._pooled(others)
        return Without(
            left_out=tuple(task.cell.task for task in tasks if drop(task)),
            n=len(found.scores.codes),
            score=printed(found.score),
            delta=None if found.delta is None else found.delta.printed(),
        )


def _with_holm(tasks: Sequence[_Task]) -> list[_Task]:
    """Adjust the task rows' p-values over the run; floor rows are no part of the family."""
    family = [
        None if t.figures.floor or t.figures.delta is None else t.figures.delta.p for t in tasks
    ]
    return [replace(task, p_holm=p) for task, p in zip(tasks, holm(family), strict=True)]


def _lengths(examples: pd.DataFrame) -> list[int | None]:
    """Lengths as the cells say them: a column with gaps comes back from pandas as floats."""
    gaps = examples["length"].isna()
    return [
        None if gap else int(length) for gap, length in zip(gaps, examples["length"], strict=True)
    ]
