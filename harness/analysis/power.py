"""``harness plan``: what a pilot says about the examples that a margin needs.

The pilot's differences are arm − full prefill of one run, or, with a gate baseline, run −
baseline of each arm. The formulas are in :mod:`harness.analysis.stats.power`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.analysis.stats.estimate import too_few_clusters
from harness.analysis.stats.jackknife import Floats
from harness.analysis.stats.power import POWER, Pilot, examples_needed, pilot_of, resolvable_margin
from harness.analysis.text_table import text_table
from harness.errors import ConfigError, NotComparableError

if TYPE_CHECKING:
    from harness.analysis.gate.baseline import Baseline
    from harness.run.store import Store

CALIBRATE_ALPHA = 0.05
"""Level of each of a calibration's two looks (:mod:`harness.analysis.calibrate.choose`)."""

MARGIN = 0.02
"""Margin that is planned for unless said otherwise."""


@dataclass(frozen=True, slots=True)
class Aim:
    """What is planned for.

    Attributes
    ----------
    margin
        Loss to resolve, in (0, 1).
    n
        Examples at hand; None: as many as the pilot has.
    power
        Chance of a conclusion when ``true_loss`` is lost.
    true_loss
        Loss that is there in truth and tolerated, in [0, margin): to show that less than the
        margin is lost, only what is left between the two may be lost to chance.
    """

    margin: float = MARGIN
    n: int | None = None
    power: float = POWER
    true_loss: float = 0.0

    @property
    def room(self) -> float:
        """What is left between the true loss and the margin."""
        return self.margin - self.true_loss

    def __post_init__(self) -> None:
        if not 0 < self.margin < 1:
            raise ConfigError(f"--margin {self.margin:g}: give a loss between 0 and 1, as 0.02")
        if not 0.5 <= self.power < 1:
            raise ConfigError(f"--power {self.power:g}: give a chance from 0.5 up to 1, as 0.8")
        if not 0 <= self.true_loss < self.margin:
            raise ConfigError(
                f"--true-loss {self.true_loss:g}: give a loss from 0 up to the margin "
                f"({self.margin:g}), which it must leave room below"
            )
        if self.n is not None and self.n < 1:
            raise ConfigError(f"--n {self.n}: give a number of examples")


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One comparison's plan.

    Attributes
    ----------
    sd
        Standard deviation of one example's difference in the pilot.
    design_effect
        How many times more examples the clusters cost; None where nothing varies.
    needed, needed_cautious
        Examples for the margin if the spread is the pilot's, and if it is what so small a pilot
        cannot rule out: the figure that keeps the power promised. None beyond ten million.
    needed_calibration
        Examples, cautious, for ``harness calibrate``: half of them choose the keep rate, the other
        half confirm it, and both succeed with the power promised.
    n, resolvable, resolvable_cautious
        Examples at hand, and the smallest margin that they resolve, by either spread.
    reason
        Why there is no plan.
    """

    task: str
    length: int | None
    arm: str
    pilot_n: int
    pilot_clusters: int
    mean: float | None
    sd: float | None
    design_effect: float | None
    needed: int | None
    needed_cautious: int | None
    n: int
    resolvable: float | None
    reason: str | None = None
    needed_calibration: int | None = None
    resolvable_cautious: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return every field."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class PilotData:
    """Differences of one comparison; ``group`` is pooled where it has several tasks."""

    group: str
    task: str
    length: int | None
    arm: str
    values: Floats
    clusters: tuple[str, ...]


def pilots_of_run(store: Store) -> list[PilotData]:
    """Differences to full prefill of every arm of a run, floor tasks left out.

    Raises
    ------
    ConfigError
        Nothing in the run can be compared.
    """
    from harness.analysis.summary.differences import paired_differences

    found = [
        PilotData(
            d.cell.first.group, d.cell.task, d.cell.length, d.cell.arm,
            d.values, d.clusters,
        )
        for d in paired_differences(store)
        if not d.floor
    ]  # fmt: skip
    if not found:
        raise ConfigError(
            f"run {store.run().run_id} has no arm to compare with full prefill (no reference, "
            "nothing finished, or every task at the floor)"
        )
    return found


def pilots_of_baseline(candidate: Baseline, baseline: Baseline) -> list[PilotData]:
    """Differences run − baseline of every arm that both hold: the spread the gate meets.

    Raises
    ------
    NotComparableError
        No arm can be compared; says why of the first.
    """
    from harness.analysis.gate.pairing import pair_cells

    found, why = [], "the baseline is empty"
    new = candidate.by_key
    for old in baseline.cells:
        paired = pair_cells(old, new[old.key]) if old.key in new else "the run lacks this arm"
        if isinstance(paired, str):
            why = f"{old.label} · {old.arm}: {paired}"
            continue
        found.append(
            PilotData(old.group, old.task, old.length, old.arm, paired.differences, paired.clusters)
        )
    if not found:
        raise NotComparableError(f"no arm of the run can be compared with the baseline ({why})")
    return found


def plan_rows(pilots: Sequence[PilotData], aim: Aim) -> list[PlanRow]:
    """Plan every comparison, pooled groups first."""
    return [_row(pilot, aim) for pilot in (*_pooled(pilots), *pilots)]


def plan_from_spread(sd: float, cluster_size: float, aim: Aim) -> PlanRow:
    """Plan without a pilot, from a guessed standard deviation of one difference.

    Raises
    ------
    ConfigError
        ``sd`` is not in [0, 1], or ``cluster_size`` is below 1.
    """
    if not 0 <= sd <= 1:
        raise ConfigError(f"--sd {sd:g}: differences of scores have a spread from 0 to 1")
    if not 1 <= cluster_size < math.inf:
        raise ConfigError(f"--cluster-size {cluster_size:g}: give examples per shared context")
    phi = sd**2 * cluster_size  # the worst case: examples of one context change together
    needed = examples_needed(aim.room, phi, cluster_size, aim.power)
    n = aim.n or needed or 0
    margin = resolvable_margin(n, phi, cluster_size, aim.power) + aim.true_loss if n else None
    return PlanRow(
        "any", None, "any", 0, 0, None, sd, cluster_size if sd else None, needed, None, n, margin,
        needed_calibration=_both_halves(aim, phi, cluster_size, None),
    )  # fmt: skip


def _both_halves(aim: Aim, phi: float, cluster_size: float, weight: float | None) -> int | None:
    """Examples for a calibration: two looks, each one-sided at 5 %, that both succeed.

    The halves share no context, so the power of both is the product of theirs.
    """
    half = examples_needed(
        aim.room, phi, cluster_size, math.sqrt(aim.power), 1 - 2 * CALIBRATE_ALPHA, weight=weight
    )
    return None if half is None else 2 * half


def _pooled(pilots: Iterable[PilotData]) -> list[PilotData]:
    groups: dict[tuple[str, int | None, str], list[PilotData]] = {}
    for pilot in pilots:
        groups.setdefault((pilot.group, pilot.length, pilot.arm), []).append(pilot)
    return [
        PilotData(
            group, f"{group} (pooled)", length, arm,
            np.concatenate([m.values for m in members]),
            tuple(c for m in members for c in m.clusters),
        )
        for (group, length, arm), members in groups.items()
        if len(members) > 1
    ]  # fmt: skip


def _row(data: PilotData, aim: Aim) -> PlanRow:
    n, count = len(data.values), len(set(data.clusters))
    pilot = pilot_of(data.values, data.clusters)
    mean = float(data.values.mean()) if n else None
    if pilot is None:
        reason = too_few_clusters(count)
        return PlanRow(
            data.task, data.length, data.arm, n, count, mean, None, None, None, None,
            aim.n or n, None, reason,
        )  # fmt: skip
    return _planned(data, pilot, aim)


def _planned(data: PilotData, pilot: Pilot, aim: Aim) -> PlanRow:
    variance, size = float(data.values.var(ddof=1)), pilot.cluster_size
    weight = pilot.weight
    at_hand = aim.n or pilot.n
    return PlanRow(
        data.task,
        data.length,
        data.arm,
        pilot.n,
        pilot.clusters,
        pilot.mean,
        math.sqrt(variance),
        pilot.phi / variance if variance else None,
        examples_needed(aim.room, pilot.phi, size, aim.power, weight=weight),
        examples_needed(aim.room, pilot.cautious, size, aim.power, weight=weight),
        at_hand,
        aim.true_loss + resolvable_margin(at_hand, pilot.phi, size, aim.power, weight=weight),
        needed_calibration=_both_halves(aim, pilot.cautious, size, weight),
        resolvable_cautious=aim.true_loss
        + resolvable_margin(at_hand, pilot.cautious, size, aim.power, weight=weight),
    )


def as_text(rows: Sequence[PlanRow], aim: Aim) -> str:
    """Return aligned plain text."""
    head = (
        "task", "arm", "pilot n", "sd", "design", f"n for {aim.margin:g}", "as the pilot",
        "to calibrate", "at n", "resolves",
    )  # fmt: skip
    lost = f"{aim.true_loss:g} is lost in truth" if aim.true_loss else "nothing is lost"
    note = (
        f"n for {aim.margin:g}: examples after which, when {lost}, the 95 % interval excludes a "
        f"loss of {aim.margin:g} in {aim.power:.0%} of the cases, whatever so small a pilot "
        "cannot rule out of the spread; as the pilot: if the spread is exactly the pilot's, which "
        "promises less; to calibrate: half of them choose a keep rate, half confirm it."
    )
    reasons = [f"{row.task} · {row.arm}: {row.reason}" for row in rows if row.reason]
    return "\n".join([*text_table(head, [*map(_cells, rows)]), *reasons, note])


def _cells(row: PlanRow) -> tuple[str, ...]:
    def number(value: float | None, style: str) -> str:
        return "–" if value is None else format(value, style)

    task = row.task if row.length is None else f"{row.task}@{row.length}"
    return (
        task,
        row.arm,
        str(row.pilot_n) if row.pilot_n else "–",
        number(row.sd, ".3f"),
        number(row.design_effect, ".2f"),
        number(row.needed_cautious if row.pilot_n else row.needed, "d"),
        number(row.needed if row.pilot_n else None, "d"),
        number(row.needed_calibration, "d"),
        str(row.n),
        number(row.resolvable_cautious if row.pilot_n else row.resolvable, ".3f"),
    )
