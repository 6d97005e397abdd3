"""Turning a run into a baseline, and saying what changes by that."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.analysis.gate.baseline import Baseline, Cell, load_baseline, save_baseline
from harness.analysis.gate.margins import default_margin, smallest_margin
from harness.analysis.gate.pairing import pair_cells
from harness.analysis.stats.power import pilot_of
from harness.errors import DataError


@dataclass(frozen=True)
class CellChange:
    """What an update does to one cell.

    Attributes
    ----------
    before, after
        Mean score in the old and the new baseline; None where the cell is absent.
    changed
        Examples whose score changes; None where the two cannot be compared.
    margin, smallest
        Margin that will be recorded, and the smallest one that the examples resolve.
    """

    label: str
    arm: str
    before: float | None
    after: float | None
    changed: int | None
    n: int
    margin: float | None = None
    smallest: float | None = None
    margin_source: str | None = None


def update_baseline(candidate: Baseline, path: Path, margin: float | None) -> list[CellChange]:
    """Write a run as the baseline in ``path``.

    Parameters
    ----------
    margin
        Margin for every cell; None: the default, see
        :func:`harness.analysis.gate.margins.default_margin`.

    Raises
    ------
    DataError
        The run is incomplete, or ``path`` holds something that is not a baseline: nothing is
        written then.
    """
    _refuse_incomplete(candidate)
    old = load_baseline(path).by_key if path.exists() else {}
    cells, changes = [], []
    for cell in candidate.cells:
        before = old.pop(cell.key, None)
        phi = _spread(before, cell)
        value, source = (margin, "--margin") if margin else default_margin(cell, phi)
        cells.append(cell.model_copy(update={"margin": value, "margin_source": source}))
        changes.append(_change(before, cells[-1], smallest_margin(cell, phi)))
    changes += [
        CellChange(gone.label, gone.arm, _mean(gone), None, None, len(gone.examples))
        for gone in old.values()
    ]
    save_baseline(candidate.model_copy(update={"cells": tuple(cells)}), path)
    return changes


def _refuse_incomplete(candidate: Baseline) -> None:
    """A baseline with holes could never be compared: every example needs its score."""
    if not any(cell.examples for cell in candidate.cells):
        raise DataError(f"run {candidate.run} has no quality records: nothing to take as baseline")
    for cell in candidate.cells:
        bare = [e.id for e in cell.examples if e.score is None]
        if bare or not cell.examples or cell.stopped:
            what = f"example {bare[0]} has no score" if bare else "no example is finished"
            what = cell.stopped or what
            raise DataError(
                f"run {candidate.run} is incomplete ({cell.label} · {cell.arm}: {what}): "
                "finish it before it becomes a baseline"
            )


def _spread(before: Cell | None, after: Cell) -> float:
    """Run-to-run φ, where an old baseline of the same examples tells it; else 0."""
    if before is None:
        return 0.0
    paired = pair_cells(before, after)
    if isinstance(paired, str):
        return 0.0
    pilot = pilot_of(paired.differences, paired.clusters)
    return 0.0 if pilot is None else pilot.phi


def _change(before: Cell | None, after: Cell, smallest: float) -> CellChange:
    changed = None
    if before is not None:
        paired = pair_cells(before, after)
        changed = None if isinstance(paired, str) else int(np.count_nonzero(paired.differences))
    return CellChange(
        after.label,
        after.arm,
        None if before is None else _mean(before),
        _mean(after),
        changed,
        len(after.examples),
        after.margin,
        smallest,
        after.margin_source,
    )


def _mean(cell: Cell) -> float | None:
    scores = [e.score for e in cell.examples if e.score is not None]
    return float(np.mean(scores)) if scores else None


def change_to_json(change: CellChange) -> dict[str, Any]:
    """Return one change as JSON."""
    return {name: getattr(change, name) for name in CellChange.__dataclass_fields__}


def describe(change: CellChange) -> str:
    """Return one change as a line."""
    name = f"{change.label} · {change.arm}"
    if change.after is None:
        return f"- {name}: removed"
    margin = f"margin {change.margin:g} ({change.margin_source})"
    if change.margin != change.smallest:
        margin += f", smallest resolvable {change.smallest:g}"
    if change.before is None:
        return f"+ {name}: n {change.n}, mean {change.after:.3f}, {margin}"
    scores = f"mean {change.before:.3f} → {change.after:.3f}"
    if change.changed is None:
        return f"~ {name}: other examples, n {change.n}, {scores}, {margin}"
    return f"~ {name}: {change.changed} of {change.n} scores change, {scores}, {margin}"
