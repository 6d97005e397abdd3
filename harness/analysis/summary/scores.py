"""Scores of a run as arrays: one table a cell, examples as codes, repetitions averaged first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from harness.analysis.stats.jackknife import Floats
from harness.analysis.stats.variance import VarianceSplit, mean_of_repeats, split_variance
from harness.errors import StoreError
from harness.schema.records import CellRecord

if TYPE_CHECKING:
    import pandas as pd

    from harness.run.store import Store

Codes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Scores:
    """Scores by example.

    Attributes
    ----------
    codes
        Sorted codes of the examples, shape (n,); each stands once.
    values
        Mean score over the repetitions, shape (n,); NaN where any of them has none.
    digests
        Output digests, shape (n,), of all repetitions joined; None where one is unknown.
    variance
        Items against seeds; None where scores are missing or repetitions incomplete.
    """

    codes: Codes
    values: Floats
    digests: npt.NDArray[np.object_]
    variance: VarianceSplit | None

    @property
    def missing(self) -> Codes:
        """Codes of the examples without a score."""
        return np.asarray(self.codes[np.isnan(self.values)])


class RunScores:
    """Examples and quality records of a store, indexed by cell; read once."""

    def __init__(self, store: Store) -> None:
        examples = store.examples_frame()
        self.examples = examples
        self.example_ids = examples["example_id"].to_numpy(object)
        self.clusters = examples["cluster"].to_numpy(object)
        self.content = examples["content_digest"].to_numpy(object)
        quality = store.quality_frame()
        index = {name: code for code, name in enumerate(self.example_ids)}
        quality["code"] = quality["example_id"].map(index)
        _check(quality)
        self._by_cell = dict(tuple(quality.groupby("cell_id", sort=False)))

    def records(self, cells: Sequence[CellRecord]) -> pd.DataFrame:
        """Return the quality records of some cells (scalar columns, see harness.run.store)."""
        import pandas as pd

        parts = [self._by_cell[c.cell_id] for c in cells if c.cell_id in self._by_cell]
        return pd.concat(parts) if parts else pd.DataFrame()

    def of(self, cells: Sequence[CellRecord]) -> Scores:
        """Scores of an arm's cells.

        Cells of different data seeds hold different examples and are joined; cells that differ
        in the seed of selector or sampling repeat the same examples and are averaged.
        """
        frame = self.records(cells)
        if frame.empty:
            nothing = np.array([], dtype=object)
            return Scores(np.array([], np.int64), np.array([]), nothing, None)
        frame = frame.sort_values("code", kind="stable")
        codes, first, counts = np.unique(
            frame["code"].to_numpy(np.int64), return_index=True, return_counts=True
        )
        scores = frame["score"].to_numpy(float)
        digests = _joined(frame["output_digest"].to_numpy(object), first, counts)
        if counts.min() == counts.max():
            table = scores.reshape(len(codes), counts[0])
            whole = np.isfinite(table).all()
            split = split_variance(table) if whole else None
            return Scores(codes, mean_of_repeats(table), digests, split)
        return Scores(codes, np.add.reduceat(scores, first) / counts, digests, None)

    def reason_of(self, example_id: str) -> str | None:
        """Why an example has no score, from the first record that says it."""
        for frame in self._by_cell.values():
            mine = frame[(frame["example_id"] == example_id) & frame["score"].isna()]
            for reason in mine["reason"].dropna():
                return str(reason)
        return None

    def clusters_of(self, codes: Codes) -> list[str]:
        """Cluster names of examples."""
        return [str(name) for name in self.clusters[codes]]


def pair(arm: Scores, reference: Scores) -> tuple[Codes, Floats]:
    """Codes and differences (arm − reference) of the examples that both hold."""
    codes, mine, theirs = np.intersect1d(
        arm.codes, reference.codes, assume_unique=True, return_indices=True
    )
    return codes, arm.values[mine] - reference.values[theirs]


def concatenate(parts: Sequence[Scores]) -> Scores:
    """Pool the scores of several tasks; tasks never share an example."""
    codes = np.concatenate([p.codes for p in parts])
    order = np.argsort(codes, kind="stable")
    return Scores(
        codes[order],
        np.concatenate([p.values for p in parts])[order],
        np.concatenate([p.digests for p in parts])[order],
        None,
    )


def _joined(
    digests: npt.NDArray[np.object_], first: Codes, counts: Codes
) -> npt.NDArray[np.object_]:
    """Join the digests of each example's repetitions; equal where every output is equal."""
    if len(digests) == len(first):
        return np.array([d if isinstance(d, str) else None for d in digests], dtype=object)
    groups = (digests[a : a + n] for a, n in zip(first, counts, strict=True))
    joined = ["+".join(g) if all(isinstance(d, str) for d in g) else None for g in groups]
    return np.array(joined, dtype=object)


def _check(quality: pd.DataFrame) -> None:
    """Refuse records that no writer of ours makes, before they become numbers."""
    orphans = quality[quality["code"].isna()]
    if len(orphans):
        raise StoreError(
            f"the store has a quality record of {orphans['example_id'].iloc[0]!r} but no such "
            "example: it is damaged, run the cell again with --fresh"
        )
    wrong = quality[(quality["score"] < -1e-9) | (quality["score"] > 1 + 1e-9)]
    if len(wrong):
        row = wrong.iloc[0]
        raise StoreError(
            f"score {row['score']:g} of {row['example_id']} lies outside [0, 1]: the task's "
            "primary metric must be scaled to [0, 1]"
        )
