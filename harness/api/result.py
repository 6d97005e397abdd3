"""A run as an object: its rows, its records, its report."""

from __future__ import annotations

from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from harness.analysis.gate.report import GateReport
    from harness.schema.records import RunRecord
    from harness.schema.rows import RunSummary


def load(path: str | PathLike[str]) -> Run:
    """Open a run by its folder, its name under ``results/runs``, or the start of that name.

    Raises
    ------
    StoreError
        There is no such run, it is damaged, or another version wrote it.
    """
    from harness.run.runs import find_run
    from harness.run.store import Store

    folder = find_run(str(path))
    with Store.open(folder):  # damaged or foreign: said here, not at first use
        return Run(folder)


class Run:
    """A run on disk. Everything is read from its store; nothing is computed twice.

    Attributes
    ----------
    path
        The run's folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def record(self) -> RunRecord:
        """Configuration and provenance: command, commits, machine, software, models."""
        from harness.run.store import Store

        with Store.open(self.path) as store:
            return store.run()

    @cached_property
    def summary(self) -> RunSummary:
        """What the run says: a row an arm, with intervals; as ``harness run --json`` prints it."""
        from harness.analysis.summary import summarize
        from harness.run.store import Store

        with Store.open(self.path) as store:
            return summarize(store)

    @cached_property
    def _cells(self) -> pd.DataFrame:
        from harness.run.store import Store

        with Store.open(self.path) as store:
            return store.cells_frame()

    @property
    def cell_count(self) -> int:
        """Number of cells: task × length × arm × seeds."""
        return len(self._cells)

    @property
    def failed(self) -> dict[str, str]:
        """Reasons of the cells that failed, by cell id."""
        return self._reasons("failed")

    @property
    def unsupported(self) -> dict[str, str]:
        """Reasons of the cells whose method cannot run there, by cell id."""
        return self._reasons("unsupported")

    def _reasons(self, status: str) -> dict[str, str]:
        found = self._cells[self._cells["status"].astype(str) == status]
        reasons = found["reason"].fillna("no reason recorded")
        return dict(zip(found["cell_id"], reasons, strict=True))

    def rows(self) -> pd.DataFrame:
        """The summary's rows, as the report's CSV has them: a typed column a figure.

        Returns
        -------
        pandas.DataFrame
            Pooled rows first (``level`` ``group``), then a row an arm and task, arms in the
            plan's order. Scores in [0, 1]; names end in their unit (``ttft_median_s``).
        """
        from harness.report.frame import frame

        return frame(self.summary)

    def records(self, *, text: bool = True) -> pd.DataFrame:
        """One row an example and cell, from the quality protocol.

        Parameters
        ----------
        text
            Whether to read the generated texts.

        Returns
        -------
        pandas.DataFrame
            The arm's facts (``task, length, arm, method, keep, look_ahead, seed, method_seed``),
            ``example_id``, ``score`` in [0, 1], ``text``, and the receipt's scalars
            (``status, keep_requested, keep_achieved, prefill_tokens, flops_share`` …).
        """
        from harness.run.store import Store

        with Store.open(self.path) as store:
            return self._with_facts(store.quality_frame(text=text))

    def latency(self) -> pd.DataFrame:
        """One row a timed request, from the latency protocol; seconds in columns ending ``_s``."""
        from harness.run.store import Store

        with Store.open(self.path) as store:
            return self._with_facts(store.latency_frame())

    def examples(self, *, text: bool = False) -> pd.DataFrame:
        """One row an example, its prompt's text only where asked for."""
        from harness.run.store import Store

        with Store.open(self.path) as store:
            return store.examples_frame(text=text)

    def _with_facts(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Put the arm's facts before each record."""
        facts = ["task", "length", "arm", "method", "keep", "look_ahead", "seed", "method_seed"]
        cells = self._cells[["cell_id", *facts]].astype({"length": "Int64", "look_ahead": "Int64"})
        merged = cells.merge(frame, on="cell_id", how="right", validate="one_to_many")
        return merged[[*facts, *(c for c in merged.columns if c not in facts)]]

    def report(
        self,
        format: str = "md",  # noqa: A002  (the option's name)
        out: str | PathLike[str] | None = None,
        *,
        compare: str | None = None,
        interval: str = "jackknife",
    ) -> str:
        """Render the run: ``md``, ``html`` (one self-contained file), ``json`` or ``csv``.

        Parameters
        ----------
        out
            A file to write as well.
        compare
            ``"paper"`` puts the published figures beside the run's.
        interval
            ``jackknife``, or ``bca`` (bootstrap, for display).

        Raises
        ------
        ConfigError
            An unknown format, comparison or interval, or a file that cannot be written.
        """
        from harness.report.render import render, write_text

        text = render([str(self.path)], format, compare, interval)
        if out is not None:
            write_text(Path(out), text)
        return text

    def export(self, out: str | PathLike[str], format: str = "lm-eval") -> list[Path]:  # noqa: A002
        """Write the records in another tool's format: ``lm-eval``, ``parquet`` or ``csv``.

        Raises
        ------
        ConfigError
            An unknown format, or a folder that cannot be written.
        """
        from harness.report.exports import export

        return export(str(self.path), format, Path(out))

    def gate(
        self,
        baseline: str | PathLike[str],
        *,
        baseline_ref: str | None = None,
        margin: float | None = None,
        ttft_margin: float = 0.1,
        ttft: bool = True,
        any_machine: bool = False,
    ) -> GateReport:
        """Judge every arm against a committed baseline, as ``harness gate`` does.

        Parameters
        ----------
        baseline
            The baseline's file; ``baseline_ref`` reads it at a git ref.
        margin, ttft_margin
            Tolerated loss of score, and slow-down relative to full prefill.

        Raises
        ------
        HarnessError
            The baseline cannot be read, or nothing is comparable (exit code 4).
        """
        from harness.analysis.gate.baseline import load_baseline
        from harness.analysis.gate.collect import collect
        from harness.analysis.gate.report import GateOptions, run_gate
        from harness.run.store import Store

        expected = load_baseline(Path(baseline), baseline_ref)
        options = GateOptions(margin, ttft_margin, ttft, any_machine)
        with Store.open(self.path) as store:
            return run_gate(collect(store), expected, options)

    def to_json(self) -> dict[str, Any]:
        """The object that ``harness run --json`` prints."""
        return self.summary.to_json()

    def __repr__(self) -> str:
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return f"Run({str(self.path)!r}: {self.cell_count} cells{failed})"

    def _repr_html_(self) -> str:
        """The report's tables, for a notebook: escaped as the HTML report is."""
        from harness.report.notebook import as_html

        return as_html(str(self.path))
