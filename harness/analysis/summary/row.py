"""One row from the cells behind it: facts of the arm, figures, times, remarks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.analysis.stats.estimate import Estimate
from harness.analysis.summary import notes
from harness.analysis.summary.quality import Comparison, printed
from harness.analysis.summary.scores import RunScores, Scores
from harness.analysis.summary.timing import MEASURES, RunTiming, by_length, headline, median, stages
from harness.analysis.verdict import at_floor
from harness.schema.estimates import Seconds, Variance, Verdict
from harness.schema.receipts import BudgetKind
from harness.schema.records import CellRecord
from harness.schema.rows import Macro, Row

if TYPE_CHECKING:
    import pandas as pd

    from harness.run.store import Store


@dataclass(frozen=True)
class Figures:
    """What a row says about quality."""

    scores: Scores
    score: Estimate
    delta: Comparison | None
    floor: bool
    notes: Sequence[str | None] = ()

    def verdict(self, p_holm: float | None, macro: Macro | None = None) -> Verdict | None:
        """What the comparison with full prefill is called; floor tasks say nothing of pruning."""
        found = None if self.delta is None else self.delta.verdict(p_holm)
        if macro is not None and macro.verdict is not None:
            found = macro.verdict
        return at_floor() if self.floor and found is not None else found

    @property
    def undecided(self) -> str | None:
        """Why nothing can be concluded; nothing can at the floor, whatever the interval."""
        if self.floor or self.delta is None:
            return None
        return notes.conclusion(self.delta.estimate)


class RowMaker:
    """Makes the rows of a run.

    Parameters
    ----------
    store
        The run's store, for what only some rows need.
    scores, timing
        The run's records; read once.
    cells
        Every cell of the run: full prefill's requests are those that other cells' blocks hold.
    """

    def __init__(
        self, store: Store, scores: RunScores, timing: RunTiming, cells: Sequence[CellRecord]
    ) -> None:
        self._store = store
        self.scores = scores
        self.timing = timing
        self.all_cells = cells
        asked = store.run().config.get("method_seed", ())
        self.seeds_asked = isinstance(asked, (list, tuple)) and len(asked) > 1

    def make(
        self,
        cells: Sequence[CellRecord],
        figures: Figures,
        p_holm: float | None,
        after: str | None = None,
        **place: Any,
    ) -> Row:
        """Make a row; ``place`` holds its level, arm, task and what only its kind has."""
        first, records = cells[0], self.scores.records(cells)
        scores, split = figures.scores, figures.scores.variance
        seeds = tuple(dict.fromkeys(c.seed for c in cells))
        said = (*figures.notes, figures.undecided, after)
        row = Row(
            base=first.base,
            series=first.series,
            method=first.method,
            engine=first.engine,
            dtype=first.dtype,
            group=first.group,
            metric=first.metric,
            seed=seeds[0] if len(seeds) == 1 else None,
            seeds=seeds,
            look_ahead=first.look_ahead,
            keep_requested=first.keep,
            keep_achieved=None if records.empty else _mean_of(records["keep_achieved"]),
            budget_kind=first.budget_kind,
            improves_ttft=first.improves_ttft,
            n=len(scores.codes),
            clusters=figures.score.clusters,
            score=printed(figures.score),
            delta=None if figures.delta is None else figures.delta.printed(p_holm),
            floor=figures.floor,
            undecided=figures.undecided is not None,
            verdict=figures.verdict(p_holm, place.get("macro")),
            deterministic=self._deterministic(cells, scores),
            variance=None if split is None else Variance(items=split.items, seeds=split.seeds),
            evidence_kept=None if records.empty else _mean_of(records["evidence_kept"]),
            status={} if records.empty else counts(records["status"]),
            cells=tuple(c.cell_id for c in cells),
            note="; ".join(note for note in said if note) or None,
            **self._timed(cells, place["length"]),
            **place,
        )
        return row.model_copy(update={"remarks": notes.remarks(row)})

    def _deterministic(self, cells: Sequence[CellRecord], scores: Scores) -> bool | None:
        """Whether seeds were varied and nothing changed; a method without chance runs once."""
        if self.seeds_asked and all(c.identity.get("method_seed", 0) is None for c in cells):
            return True
        return None if scores.variance is None else scores.variance.deterministic

    def accepted(self, cells: Sequence[CellRecord]) -> str | None:
        """What a verifier accepted, of a method whose budget follows from that."""
        if cells[0].budget_kind != BudgetKind.ADAPTIVE:
            return None
        names = ("acceptance_rate", "mean_cosine", "shuffled_cosine")
        means = self._store.mean_details([cell.cell_id for cell in cells], *names)
        return notes.accepted(*(means[name] for name in names))

    def _timed(self, cells: Sequence[CellRecord], length: int | None) -> dict[str, Any]:
        """What a row says about time."""
        requests = self.timing.requests(cells, self.all_cells)
        kernel = self.timing.kernel(cells)
        tokens = requests["tokens"].astype(float)
        found: dict[str, Any] = {
            "stages_s": stages(requests),
            "timed_tokens": float(tokens.mean()) if len(tokens) else None,
        }
        for measure in MEASURES:
            lengths = by_length(self.timing.blocks_of(cells, measure), length, measure)
            found[f"{measure}_by_length"] = lengths
            found[f"{measure}_speedup"] = headline(lengths, measure)
            found[f"{measure}_s"] = Seconds(
                median=median(requests, measure),
                requests=int(requests[f"{measure}_s"].notna().sum()),
                # A kernel of prefill: tokens after the first are not its work.
                kernel=None if measure == "tpot" else kernel,
            )
        return found


def _mean_of(column: pd.Series) -> float | None:
    values = column.dropna().astype(float)
    return float(values.mean()) if len(values) else None


def counts(column: pd.Series) -> dict[str, int]:
    """Count values, most frequent first."""
    counted = Counter(column.tolist())
    return dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))
