"""Paired differences of every arm to full prefill, example by example."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harness.analysis.floor import is_floor
from harness.analysis.stats.jackknife import Floats
from harness.analysis.summary.cells import PooledCell, pooled_cells
from harness.analysis.summary.scores import RunScores, pair
from harness.errors import DataError
from harness.schema.records import CellRecord

if TYPE_CHECKING:
    from harness.run.store import Store


@dataclass(frozen=True)
class Differences:
    """One arm at one task and length against full prefill.

    Attributes
    ----------
    values
        Arm − full, shape (n,).
    clusters
        Cluster of each difference.
    floor
        Full prefill cannot do the task: leave it out of verdicts.
    keep_achieved
        Mean achieved keep; None where the method keeps no budget.
    """

    cell: PooledCell
    values: Floats
    clusters: tuple[str, ...]
    floor: bool
    keep_achieved: float | None


def paired_differences(
    store: Store, chosen: Sequence[PooledCell] | None = None
) -> list[Differences]:
    """Differences of every arm that ran to its end and has a reference, in the plan's order.

    Parameters
    ----------
    chosen
        Cells to read; None for all.

    Raises
    ------
    DataError
        An example has no score on either side, or only one side has it.
    """
    scores, cells = RunScores(store), store.cells()
    by_id = {cell.cell_id: cell for cell in cells}
    return [
        _differences(cell, scores, references)
        for cell in (pooled_cells(cells) if chosen is None else chosen)
        if cell.stopped is None and (references := cell.references(by_id))
    ]


def _differences(
    cell: PooledCell, scores: RunScores, references: Sequence[CellRecord]
) -> Differences:
    arm, full = scores.of(cell.cells), scores.of(references)
    where = f"{cell.task} · {cell.arm}"
    for side in (arm, full):
        if len(side.missing):
            example = scores.example_ids[side.missing[0]]
            raise DataError(f"{where}: example {example} has no score; finish the run first")
    if not np.array_equal(arm.codes, full.codes):
        raise DataError(
            f"{where}: {len(arm.codes)} examples are finished, {len(full.codes)} under full "
            "prefill; finish the run first"
        )
    codes, values = pair(arm, full)
    return Differences(
        cell,
        values,
        tuple(scores.clusters_of(codes)),
        is_floor(full.values, scores.clusters_of(full.codes), cell.first.metric),
        _keep(scores, cell),
    )


def _keep(scores: RunScores, cell: PooledCell) -> float | None:
    records = scores.records(cell.cells)
    achieved = [] if records.empty else records["keep_achieved"].dropna().to_list()
    return float(np.mean(achieved)) if achieved else None
