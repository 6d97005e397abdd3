"""The keep rates of one arm, with what was measured at each."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.analysis.summary.differences import Differences, paired_differences
from harness.analysis.summary.settings import Setting, settings_of
from harness.analysis.summary.timing import RunTiming
from harness.errors import ConfigError, nearest
from harness.schema.records import CellRecord

if TYPE_CHECKING:
    import pandas as pd

    from harness.run.store import Store


@dataclass(frozen=True)
class Rung:
    """One keep rate.

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
class Ladder:
    """One arm at one length over its keep rates, from high to low."""

    name: str
    length: int | None
    rungs: tuple[Rung, ...]
    floors: tuple[str, ...]


def read_ladder(
    store: Store, arm: str | None, tasks: Collection[str] | None, length: int | None
) -> Ladder:
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
    settings = _settings(store.cells(), arm, tasks, length)
    found = paired_differences(store, settings)
    used = [d for d in found if not d.floor]
    if not used:
        raise ConfigError(
            "nothing to calibrate on: no task has a reference above the floor (full prefill under "
            "0.2 means that the model cannot do it)"
        )
    _check_whole(used)
    timing, clusters = RunTiming(store), _clusters(store)
    rungs = (
        _rung(keep, [d for d in used if _keep(d) == keep], timing, clusters)
        for keep in sorted({_keep(d) for d in used}, reverse=True)
    )
    floors = sorted({d.setting.task for d in found if d.floor})
    return Ladder(ladder_name(settings[0]), settings[0].length, tuple(rungs), tuple(floors))


def _settings(
    cells: Sequence[CellRecord],
    arm: str | None,
    tasks: Collection[str] | None,
    length: int | None,
) -> list[Setting]:
    """Settings of the one arm and length that are asked for."""
    found = [s for s in settings_of(cells) if s.first.keep is not None and s.stopped is None]
    if not found:
        raise ConfigError("the run has no finished arm with a keep rate")
    if tasks is not None:
        found = _only_tasks(found, tasks)
    found = _one(found, "--length", length, [s.length for s in found])
    return _one(found, "--arm", arm, [ladder_name(s) for s in found])


def ladder_name(setting: Setting) -> str:
    """Name of an arm without its keep rate: ``specprefill-k10-lah8`` → ``specprefill-lah8``."""
    keep = setting.first.keep
    if keep is None:
        return setting.arm
    return re.sub(rf"-k{re.escape(f'{keep * 100:g}')}(?=-|@|$)", "", setting.arm)


def _keep(differences: Differences) -> float:
    return float(differences.setting.first.keep or 0.0)


def _only_tasks(found: list[Setting], tasks: Collection[str]) -> list[Setting]:
    known = {s.task for s in found}
    for name in tasks:
        if name not in known:
            raise ConfigError(f"the run has no results of task '{name}'{nearest(name, known)}")
    return [s for s in found if s.task in tasks]


def _one(
    found: list[Setting],
    option: str,
    wanted: str | int | None,
    values: Sequence[str | int | None],
) -> list[Setting]:
    """Keep what has the wanted value; without a wish there must be one value only."""
    known = list(dict.fromkeys(values))
    if wanted is None and len(known) == 1:
        return found
    listed = ", ".join(str(value) for value in known)
    if wanted is None:
        raise ConfigError(f"choose one with {option}: the run has {listed}")
    if wanted not in known:
        raise ConfigError(f"{option} {wanted}: the run has {listed}")
    return [s for s, value in zip(found, values, strict=True) if value == wanted]


def _check_whole(used: Sequence[Differences]) -> None:
    """Every keep rate must have every task, or the sequence would compare unlike things."""
    tasks = {d.setting.task for d in used}
    for keep in {_keep(d) for d in used}:
        lacking = tasks - {d.setting.task for d in used if _keep(d) == keep}
        if lacking:
            raise ConfigError(f"keep {keep:g} has no results of {', '.join(sorted(lacking))}")


def _clusters(store: Store) -> dict[str, str]:
    examples = store.examples_frame()
    return dict(zip(examples["example_id"], examples["cluster"].astype(str), strict=True))


def _rung(
    keep: float, parts: list[Differences], timing: RunTiming, clusters: dict[str, str]
) -> Rung:
    achieved = [d.keep_achieved for d in parts if d.keep_achieved is not None]
    blocks = timing.blocks_of([c for d in parts for c in d.setting.cells])
    blocks = blocks.assign(cluster=blocks["example_id"].map(clusters))
    mean = sum(achieved) / len(achieved) if achieved else None
    return Rung(keep, mean, tuple(parts), blocks)
