"""The keep rates of one arm, with what was measured at each."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.analysis.floor import FLOOR_MEANS
from harness.analysis.summary.cells import PooledCell, pooled_cells
from harness.analysis.summary.differences import Differences, paired_differences
from harness.analysis.summary.timing import RunTiming
from harness.errors import ConfigError, nearest
from harness.schema.records import CellRecord

if TYPE_CHECKING:
    import pandas as pd

    from harness.run.store import Store


@dataclass(frozen=True)
class KeepRate:
    """One arm at one keep rate.

    Attributes
    ----------
    keep, keep_achieved
        Requested, and mean achieved.
    tasks
        Differences to full prefill, a task each, floor tasks left out.
    blocks
        Latency blocks of those tasks (see :func:`harness.analysis.summary.timing.blocks`), with a
        column ``cluster``.
    """

    keep: float
    keep_achieved: float | None
    tasks: tuple[Differences, ...]
    blocks: pd.DataFrame


@dataclass(frozen=True)
class KeepRates:
    """One arm at one length over its keep rates, from high to low."""

    name: str
    length: int | None
    rates: tuple[KeepRate, ...]
    floors: tuple[str, ...]


def read_keep_rates(
    store: Store, arm: str | None, tasks: Collection[str] | None, length: int | None
) -> KeepRates:
    """Find the keep rates of one arm in a run.

    Parameters
    ----------
    arm
        Name without the keep rate (``specprefill-lah8``); None where the run has one only.
    tasks
        Tasks to use; None for all.
    length
        Prompt length; None where the run has one only.

    Raises
    ------
    ConfigError
        Nothing, or more than one choice, is left; the message lists what there is.
    """
    chosen = _chosen(store.cells(), arm, tasks, length)
    found = paired_differences(store, chosen)
    used = [d for d in found if not d.floor]
    if not used:
        raise ConfigError(
            f"nothing to calibrate on: no task has a reference above the floor ({FLOOR_MEANS} "
            "where the model cannot do a task)"
        )
    _check_whole(used)
    timing, clusters = RunTiming(store), _clusters(store)
    rates = (
        _rate(keep, [d for d in used if _keep(d) == keep], timing, clusters)
        for keep in sorted({_keep(d) for d in used}, reverse=True)
    )
    floors = sorted({d.cell.task for d in found if d.floor})
    first = chosen[0]
    return KeepRates(first.first.series, first.length, tuple(rates), tuple(floors))


def _chosen(
    cells: Sequence[CellRecord],
    arm: str | None,
    tasks: Collection[str] | None,
    length: int | None,
) -> list[PooledCell]:
    """Cells of the one arm and length that are asked for."""
    found = [c for c in pooled_cells(cells) if c.first.keep is not None and c.stopped is None]
    if not found:
        raise ConfigError("the run has no finished arm with a keep rate")
    if tasks is not None:
        found = _only_tasks(found, tasks)
    found = _one(found, "--length", length, [c.length for c in found])
    return _one(found, "--arm", arm, [c.first.series for c in found])


def _keep(differences: Differences) -> float:
    return float(differences.cell.first.keep or 0.0)


def _only_tasks(found: list[PooledCell], tasks: Collection[str]) -> list[PooledCell]:
    known = {c.task for c in found}
    for name in tasks:
        if name not in known:
            raise ConfigError(f"the run has no results of task '{name}'{nearest(name, known)}")
    return [c for c in found if c.task in tasks]


def _one(
    found: list[PooledCell],
    option: str,
    wanted: str | int | None,
    values: Sequence[str | int | None],
) -> list[PooledCell]:
    """Keep what has the wanted value; without a wish there must be one value only."""
    known = list(dict.fromkeys(values))
    if wanted is None and len(known) == 1:
        return found
    listed = ", ".join(str(value) for value in known)
    if wanted is None:
        raise ConfigError(f"choose one with {option}: the run has {listed}")
    if wanted not in known:
        raise ConfigError(f"{option} {wanted}: the run has {listed}")
    return [c for c, value in zip(found, values, strict=True) if value == wanted]


def _check_whole(used: Sequence[Differences]) -> None:
    """Every keep rate must have every task, or the sequence would compare unlike things."""
    tasks = {d.cell.task for d in used}
    for keep in {_keep(d) for d in used}:
        lacking = tasks - {d.cell.task for d in used if _keep(d) == keep}
        if lacking:
            raise ConfigError(f"keep {keep:g} has no results of {', '.join(sorted(lacking))}")


def _clusters(store: Store) -> dict[str, str]:
    examples = store.examples_frame()
    return dict(zip(examples["example_id"], examples["cluster"].astype(str), strict=True))


def _rate(
    keep: float, parts: list[Differences], timing: RunTiming, clusters: dict[str, str]
) -> KeepRate:
    achieved = [d.keep_achieved for d in parts if d.keep_achieved is not None]
    blocks = timing.blocks_of([c for d in parts for c in d.cell.cells])
    blocks = blocks.assign(cluster=blocks["example_id"].map(clusters))
    mean = sum(achieved) / len(achieved) if achieved else None
    return KeepRate(keep, mean, tuple(parts), blocks)
