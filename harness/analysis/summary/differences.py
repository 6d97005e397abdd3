"""Paired differences of every arm to full prefill, example by example."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harness.analysis.stats.jackknife import Floats
from harness.analysis.summary.rows import FLOOR
from harness.analysis.summary.scores import RunScores, Scores, pair
from harness.analysis.summary.settings import Setting, settings_of
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

    setting: Setting
    values: Floats
    clusters: tuple[str, ...]
    floor: bool
    keep_achieved: float | None


def paired_differences(
    store: Store, settings: Sequence[Setting] | None = None
) -> list[Differences]:
    """Differences of every arm that ran to its end and has a reference, in the plan's order.

    Parameters
    ----------
    settings
        Arms to read; None for all.

    Raises
    ------
    DataError
        An example has no score on either side, or only one side has it.
    """
    scores, cells = RunScores(store), store.cells()
    by_id = {cell.cell_id: cell for cell in cells}
    return [
        _differences(setting, scores, references)
        for setting in (settings_of(cells) if settings is None else settings)
        if setting.stopped is None and (references := _references(setting, by_id))
    ]


def _references(setting: Setting, by_id: dict[str, CellRecord]) -> list[CellRecord]:
    names = dict.fromkeys(c.reference_cell_id for c in setting.cells)
    return [by_id[name] for name in names if name in by_id]


def _differences(
    setting: Setting, scores: RunScores, references: Sequence[CellRecord]
) -> Differences:
    arm, full = scores.of(setting.cells), scores.of(references)
    where = f"{setting.task} · {setting.arm}"
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
        setting,
        values,
        tuple(scores.clusters_of(codes)),
        _is_floor(full),
        _keep(scores, setting),
    )


def _is_floor(full: Scores) -> bool:
    return len(full.values) > 0 and float(full.values.mean()) < FLOOR


def _keep(scores: RunScores, setting: Setting) -> float | None:
    records = scores.records(setting.cells)
    achieved = [] if records.empty else records["keep_achieved"].dropna().to_list()
    return float(np.mean(achieved)) if achieved else None
