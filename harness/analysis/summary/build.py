"""From a store to rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from harness.analysis.stats.estimate import Estimate, missing
from harness.analysis.stats.holm import holm
from harness.analysis.stats.jackknife import Floats
from harness.analysis.summary.counting import is_counting
from harness.analysis.summary.notes import accepted, conclusion, incomplete, left_out, not_active
from harness.analysis.summary.quality import QualityEstimates
from harness.analysis.summary.rows import FLOOR, ArmRow, Delta, RunSummary
from harness.analysis.summary.scores import RunScores, Scores, concatenate
from harness.analysis.summary.settings import Setting, settings_of
from harness.analysis.summary.timing import RunTiming, by_length, headline, stages
from harness.schema.receipts import BudgetKind
from harness.schema.records import CellRecord

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
    return RunSummary(run.run_id, str(store.folder), tuple(builder.rows()))


@dataclass(frozen=True)
class _Figures:
    """What a row says about quality."""

    scores: Scores
    score: Estimate
    delta: Delta | None
    notes: Sequence[str | None]


@dataclass(frozen=True)
class _Task:
    """One arm at one task and length, with what its row was made of."""

    setting: Setting
    scores: Scores
    reference: Scores | None
    row: ArmRow


class _Builder:
    """Reads a store once and makes every row from it."""

    def __init__(self, store: Store, bca_seed: int | None) -> None:
        self.store = store
        self.scores = RunScores(store)
        self.quality = QualityEstimates(self.scores, bca_seed)
        self.timing = RunTiming(store)
        self.all_cells = store.cells()
        asked = store.run().config.get("method_seed", ())
        self.seeds_asked = isinstance(asked, (list, tuple)) and len(asked) > 1
        self.by_id = {cell.cell_id: cell for cell in self.all_cells}
        examples = self.scores.examples
        self.expected = Counter(
            zip(examples["task"], _lengths(examples), examples["seed"], strict=True)
        )

    def rows(self) -> list[ArmRow]:
        tasks = [self._task(setting) for setting in settings_of(self.all_cells)]
        tasks = _with_holm(tasks)
        rows = self._group_rows(tasks)
        for task in tasks:
            rows.append(task.row)
            seeds = task.setting.seeds
            if len(seeds) > 1:
                parts = (self._task(task.setting.at_seed(seed)) for seed in seeds)
                rows += [replace(p.row, level="seed", floor=task.row.floor) for p in parts]
        return rows

    # -- one task --------------------------------------------------------------------------

    def _task(self, setting: Setting) -> _Task:
        scores = self.scores.of(setting.cells)
        reference = self._reference(setting)
        base = scores if setting.is_reference else reference
        full = _mean(base) if base is not None else None
        score = self.quality.score(scores, setting.stopped)
        delta = None
        if reference is not None:
            delta = self.quality.delta(scores, reference, setting.stopped)
        floor = full is not None and full < FLOOR
        due = sum(self.expected[(c.task, c.length, c.seed)] for c in setting.cells)
        got = len(self.scores.records(setting.cells))
        notes = [incomplete(setting, got, due), not_active(self._latency_status(setting.cells))]
        if not floor and delta is not None:
            notes.append(conclusion(delta.estimate))
        notes.append(self._accepted(setting.cells))
        row = self._row(setting.cells, setting.arm, _Figures(scores, score, delta, notes))
        row = replace(row, level="task", task=setting.task, length=setting.length, floor=floor)
        return _Task(setting, scores, reference, self._timed(row, setting.cells))

    def _reference(self, setting: Setting) -> Scores | None:
        """Scores of the full-prefill cells that the setting's cells refer to."""
        names = dict.fromkeys(c.reference_cell_id for c in setting.cells)
        cells = [self.by_id[name] for name in names if name in self.by_id]
        return self.scores.of(cells) if cells else None

    # -- groups ----------------------------------------------------------------------------

    def _group_rows(self, tasks: Sequence[_Task]) -> list[ArmRow]:
        """Pool each arm over its group's tasks at one length, without floor and counting tasks."""
        groups: dict[tuple[str, int | None], list[_Task]] = {}
        for task in tasks:
            key = (task.setting.first.group, task.setting.length)
            groups.setdefault(key, []).append(task)
        rows = []
        for (group, length), members in groups.items():
            if len({t.setting.task for t in members}) > 1:
                by_arm: dict[str, list[_Task]] = {}
                for task in members:
                    by_arm.setdefault(task.setting.arm, []).append(task)
                rows += [self._group_row(group, length, arms) for arms in by_arm.values()]
        return rows

    def _group_row(self, group: str, length: int | None, tasks: Sequence[_Task]) -> ArmRow:
        used = [
            t
            for t in tasks
            if not t.row.floor
            and t.setting.stopped is None
            and not is_counting(t.setting.task, t.setting.first.category)
        ]
        cells = tuple(c for t in used for c in t.setting.cells)
        every = tuple(c for t in tasks for c in t.setting.cells)
        pooled = concatenate([t.scores for t in used]) if used else None
        score = missing("no task to pool") if pooled is None else self.quality.score(pooled)
        references = [t.reference for t in used if t.reference is not None]
        delta = None
        if pooled is not None and references:
            delta = self.quality.delta(pooled, concatenate(references))
        notes = [left_out([t.row for t in tasks if t not in used])]
        if delta is not None:
            notes.append(conclusion(delta.estimate))
        arm = tasks[0].setting.arm
        figures = _Figures(pooled or tasks[0].scores, score, delta, notes)
        row = self._row(cells or every, arm, figures)
        row = replace(
            row,
            level="group",
            task=group,
            length=length,
            category=group,
            n=0 if pooled is None else row.n,
            tasks=tuple(t.setting.task for t in used),
        )
        return self._timed(row, every)

    # -- parts of a row --------------------------------------------------------------------

    def _row(self, cells: Sequence[CellRecord], arm: str, figures: _Figures) -> ArmRow:
        scores = figures.scores
        first, records = cells[0], self.scores.records(cells)
        seeds = tuple(dict.fromkeys(c.seed for c in cells))
        empty = records.empty
        return ArmRow(
            level="task",
            arm=arm,
            method=first.method,
            task=first.task,
            group=first.group,
            category=first.category,
            metric=first.metric,
            length=first.length,
            seed=seeds[0] if len(seeds) == 1 else None,
            seeds=seeds,
            look_ahead=first.look_ahead,
            keep_requested=first.keep,
            keep_achieved=None if empty else _mean_of(records["keep_achieved"]),
            budget_kind=first.budget_kind,
            improves_ttft=first.improves_ttft,
            n=len(scores.codes),
            score=figures.score,
            delta=figures.delta,
            deterministic=self._deterministic(cells, scores),
            variance=scores.variance,
            evidence_kept=None if empty else _mean_of(records["evidence_kept"]),
            status={} if empty else _counts(records["status"]),
            cell_ids=tuple(c.cell_id for c in cells),
            note="; ".join(note for note in figures.notes if note) or None,
        )

    def _deterministic(self, cells: Sequence[CellRecord], scores: Scores) -> bool | None:
        """Whether seeds were varied and nothing changed; a method without chance runs once."""
        if self.seeds_asked and all(c.identity.get("method_seed", 0) is None for c in cells):
            return True
        return None if scores.variance is None else scores.variance.deterministic

    def _accepted(self, cells: Sequence[CellRecord]) -> str | None:
        """What a verifier accepted, of a method whose budget follows from that."""
        if cells[0].budget_kind != BudgetKind.ADAPTIVE:
            return None
        names = ("acceptance_rate", "mean_cosine", "shuffled_cosine")
        means = self.store.mean_details([cell.cell_id for cell in cells], *names)
        return accepted(*(means[name] for name in names))

    def _timed(self, row: ArmRow, cells: Sequence[CellRecord]) -> ArmRow:
        requests = self.timing.requests(cells, self.all_cells)
        lengths = by_length(self.timing.blocks_of(cells), row.length)
        seconds = requests["ttft_s"].astype(float)
        return replace(
            row,
            ttft_median=float(seconds.median()) if len(seconds) else None,
            requests=len(seconds),
            kernel=self.timing.kernel(cells),
            speedup=headline(lengths),
            by_length=lengths,
            stages_s=stages(requests),
        )

    def _latency_status(self, cells: Sequence[CellRecord]) -> dict[str, int]:
        frame = self.timing.requests(cells, ())
        return _counts(frame["status"])


def _with_holm(tasks: Sequence[_Task]) -> list[_Task]:
    """Adjust the task rows' p-values over the run; floor rows are no part of the family."""
    family = [None if t.row.floor or t.row.delta is None else t.row.delta.p for t in tasks]
    out = []
    for task, adjusted in zip(tasks, holm(family), strict=True):
        row = task.row
        if row.delta is not None:
            row = replace(row, delta=replace(row.delta, p_holm=adjusted))
        out.append(replace(task, row=row))
    return out


def _mean(scores: Scores) -> float | None:
    """Mean of complete scores, else None."""
    values: Floats = scores.values
    return float(values.mean()) if len(values) and not np.isnan(values).any() else None


def _mean_of(column: pd.Series) -> float | None:
    values = column.dropna().astype(float)
    return float(values.mean()) if len(values) else None


def _counts(column: pd.Series) -> dict[str, int]:
    counted = Counter(column.tolist())
    return dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))


def _lengths(examples: pd.DataFrame) -> list[int | None]:
    """Lengths as the cells say them: a column with gaps comes back from pandas as floats."""
    gaps = examples["length"].isna()
    return [
        None if gap else int(length) for gap, length in zip(gaps, examples["length"], strict=True)
    ]
