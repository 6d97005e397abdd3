"""What a report is made of: runs, read from their stores and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from harness.errors import StoreError
from harness.run.runs import find_run
from harness.run.store import Store
from harness.schema.records import CellRecord, RunRecord
from harness.schema.rows import CategoryMean, RivalComparison, Row, RunSummary

if TYPE_CHECKING:
    import pandas as pd


FAKE_NOTE = "No model ran: the fake engine made these answers and times up"


class ReadingStore(Store):
    """A store that is only read: its big frames are read once, however many pages ask."""

    @cached_property
    def _quality(self) -> pd.DataFrame:
        return super().quality_frame()

    @cached_property
    def _examples(self) -> pd.DataFrame:
        return super().examples_frame()

    def quality_frame(self, *, text: bool = False) -> pd.DataFrame:
        """As :meth:`Store.quality_frame`; a copy that shares its columns until one is written."""
        return super().quality_frame(text=True) if text else self._quality.copy(deep=False)

    def examples_frame(self, *, text: bool = False) -> pd.DataFrame:
        """As :meth:`Store.examples_frame`; a copy that shares its columns until one is written."""
        return super().examples_frame(text=True) if text else self._examples.copy(deep=False)


@dataclass(frozen=True)
class RunView:
    """One run, open for reading.

    Attributes
    ----------
    label
        The run's id where several are reported together, else None.
    """

    store: Store
    record: RunRecord
    cells: tuple[CellRecord, ...]
    summary: RunSummary
    label: str | None = None

    @cached_property
    def rows(self) -> list[Row]:
        """The summary's rows, with the run's label."""
        return [row.model_copy(update={"run": self.label}) for row in self.summary.arms]

    @cached_property
    def means(self) -> list[CategoryMean]:
        """The summary's means over tasks, with the run's label."""
        return [mean.model_copy(update={"run": self.label}) for mean in self.summary.categories]

    @cached_property
    def models(self) -> str:
        """Models, engines and dtypes, as a phrase."""
        target = self.record.models.get("target") or "an unnamed target"
        speculator = self.record.models.get("speculator")
        pair = f"{target} with speculator {speculator}" if speculator else f"{target}"
        engines = _joined(f"{cell.engine}, {cell.dtype}" for cell in self.cells)
        return f"{pair} ({engines})"

    @cached_property
    def quality(self) -> pd.DataFrame:
        """Quality records, scalar columns (see :meth:`harness.run.store.Store.quality_frame`)."""
        return self.store.quality_frame()

    @cached_property
    def examples(self) -> pd.DataFrame:
        """Examples without their texts (see :meth:`harness.run.store.Store.examples_frame`)."""
        return self.store.examples_frame()


@dataclass(frozen=True)
class Report:
    """Everything that pages and figures draw from."""

    runs: tuple[RunView, ...]
    comparison: str | None = None
    bca_seed: int | None = None

    @cached_property
    def rows(self) -> list[Row]:
        """Rows of every run, in order."""
        return [row for run in self.runs for row in run.rows]

    @cached_property
    def means(self) -> list[CategoryMean]:
        """Means over tasks of every run, in order."""
        return [mean for run in self.runs for mean in run.means]

    @cached_property
    def rivals(self) -> list[RivalComparison]:
        """Comparisons of rivals of every run, in order."""
        return [found for run in self.runs for found in run.summary.rival_comparisons]

    @cached_property
    def headline_rows(self) -> list[Row]:
        """Pooled rows, and the rows of tasks that no pooled row stands for."""
        pooled = {(row.run, row.task, row.length) for row in self.rows if row.pooled}
        return [
            row
            for row in self.rows
            if row.pooled
            or (row.level == "task" and (row.run, row.group, row.length) not in pooled)
        ]

    @cached_property
    def models(self) -> str:
        """Models and engines of every run, as a phrase."""
        return _joined(run.models for run in self.runs)

    def models_of(self, row: Row) -> str:
        """Models and engine behind a row, as a phrase."""
        return _joined(run.models for run in self.runs if run.label == row.run) or self.models

    @cached_property
    def setting(self) -> str:
        """Models, engine and prompt lengths, as a phrase that every caption carries."""
        lengths = sorted({cell.length for run in self.runs for cell in run.cells if cell.length})
        if not lengths:
            return f"{self.models}, prompts as they are"
        tokens = [f"{length:,}" for length in lengths]
        listed = tokens[0] if len(tokens) == 1 else f"{', '.join(tokens[:-1])} and {tokens[-1]}"
        return f"{self.models}, prompts of {listed} tokens"

    @property
    def setting_sentence(self) -> str:
        """:attr:`setting` as a sentence, with what is said of intervals other than usual."""
        measured = f"Measured on {self.setting}."
        if self.bca_seed is None:
            return measured
        return (
            f"{measured} Intervals of scores and differences are BCa bootstrap ones (seed "
            f"{self.bca_seed}), for display: remarks and verdicts keep the jackknife's."
        )

    @cached_property
    def model_notes(self) -> list[str]:
        """What the presets say about their models (a stand-in says so wherever it is shown)."""
        notes = [str(run.record.models.get("note") or "") for run in self.runs]
        if any(cell.engine == "fake" for run in self.runs for cell in run.cells):
            notes.insert(0, FAKE_NOTE)
        return [f"{n[:1].upper()}{n[1:].rstrip('.')}." for n in dict.fromkeys(notes) if n]


@contextmanager
def open_report(
    names: Sequence[str], comparison: str | None = None, bca_seed: int | None = None
) -> Iterator[Report]:
    """Open runs for reading and summarize each; ``bca_seed`` as in :func:`summarize`.

    Raises
    ------
    StoreError
        A run is missing, damaged, named twice, or holds no finished example.
    """
    from harness.analysis.summary import summarize

    paths = [find_run(name) for name in names]
    with ExitStack() as stack:
        views: list[RunView] = []
        for path in paths:
            store = stack.enter_context(ReadingStore.open(path))
            record = store.run()
            if any(view.record.run_id == record.run_id for view in views):
                raise StoreError(f"run {record.run_id} is named twice")
            label = record.run_id if len(paths) > 1 else None
            summary = summarize(store, bca_seed=bca_seed)
            if not any(row.n for row in summary.arms):
                raise StoreError(
                    f"{path} holds no finished example: run its command again to resume it "
                    f"({record.command})"
                )
            views.append(RunView(store, record, tuple(store.cells()), summary, label))
        yield Report(tuple(views), comparison, bca_seed)


def _joined(parts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(parts))
