"""From a store to the cells the gate compares."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from harness.analysis.gate.baseline import Baseline, Cell, Example, Timing
from harness.analysis.summary.cells import PooledCell, pooled_cells
from harness.analysis.summary.scores import RunScores
from harness.analysis.summary.timing import RunTiming, bands, speed_up

if TYPE_CHECKING:
    from harness.run.store import Store
    from harness.schema.records import CellRecord

TTFT_DIGITS = 6
"""Digits kept of a log ratio: a millionth is far below any clock's noise."""


def collect(store: Store) -> Baseline:
    """Turn a run into cells with per-example scores and latency blocks.

    Examples that were not scored stand with ``score`` None: the gate names them, it never
    drops them.
    """
    run = store.run()
    scores, timing, cells = RunScores(store), RunTiming(store), store.cells()
    return Baseline(
        run=run.run_id,
        commits=run.commits,
        machine_class=str(run.machine.get("class", "unknown")),
        models=json.loads(json.dumps(run.models)),
        sessions=tuple(dict.fromkeys(timing.frame["session"].astype(str))),
        cells=tuple(_cell(cell, scores, timing, cells) for cell in pooled_cells(cells)),
    )


def _cell(
    cell: PooledCell, scores: RunScores, timing: RunTiming, cells: Sequence[CellRecord]
) -> Cell:
    first, found, stopped = cell.first, scores.of(cell.cells), cell.stopped
    order = np.argsort([str(i) for i in scores.example_ids[found.codes]], kind="stable")
    examples = tuple(
        Example(
            id=str(scores.example_ids[code]),
            content=str(scores.content[code]),
            cluster=str(scores.clusters[code]),
            score=None if np.isnan(value) else float(value),
            output=digest,
        )
        for code, value, digest in zip(
            found.codes[order], found.values[order], found.digests[order], strict=True
        )
    )
    return Cell(
        task=cell.task,
        group=first.group,
        category=first.category,
        metric=first.metric,
        length=cell.length,
        arm=cell.arm,
        method=first.method,
        reference=cell.is_reference,
        keep=first.keep,
        look_ahead=first.look_ahead,
        options=dict(first.options),
        engine=first.engine,
        dtype=first.dtype,
        target=first.target,
        speculator=first.speculator,
        examples=examples,
        ttft=_timing(cell, scores, timing, cells),
        stopped=None if stopped is None else f"{stopped.status}: {stopped.reason or 'no reason'}",
    )


def _timing(
    cell: PooledCell, scores: RunScores, timing: RunTiming, cells: Sequence[CellRecord]
) -> dict[str, Timing]:
    """Blocks by length; for full prefill the raw logs of the blocks it served in."""
    content = dict(zip(scores.example_ids, scores.content, strict=True))
    if cell.is_reference:
        own = {c.cell_id for c in cell.cells}
        table = timing.blocks_of([c for c in cells if c.reference_cell_id in own])
    else:
        table = timing.blocks_of(cell.cells)
    found = {}
    # Equal prompts (two seeds may draw the same) count once in the comparison.
    table = table.assign(prompt=table["example_id"].map(content)).drop_duplicates("prompt")
    for name, part in bands(table, cell.length).items():
        column = "reference_log" if cell.is_reference else "r"
        measured = None if cell.is_reference else speed_up(part)
        found[name] = Timing(
            values=tuple(round(float(value), TTFT_DIGITS) for value in part[column]),
            prompts=tuple(part["prompt"].astype(str)),
            invalid=None if measured is None or measured.ratio is not None else measured.reason,
        )
    return found
