"""Fixed-sequence testing on the calibration half, one look at the held-out half."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from harness.analysis.calibrate.keep_rates import KeepRate, KeepRates
from harness.analysis.calibrate.split import calibration_half
from harness.analysis.stats.estimate import Estimate
from harness.analysis.stats.jackknife import paired_difference
from harness.analysis.stats.latency import Shift, hodges_lehmann, signed_rank_p
from harness.errors import ConfigError, ExitCode

ALPHA = 0.05
"""Level of each test; stopping at the first failure keeps it for the whole sequence."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What a keep rate must meet.

    Attributes
    ----------
    margin
        Tolerated loss against full prefill. With it, keep rates are tested from high to low and
        the lowest one that passes is chosen.
    speed_up, ttft_s
        TTFT of full prefill over the arm's at least this, or the arm's TTFT at most this many
        seconds. Without a margin the sequence runs from low to high (the lowest keep rate is the
        fastest) and the highest one that passes is chosen; with one, it is only reported.
    every_task
        Each task must keep the margin, instead of the mean over their examples.
    seed
        Seed of the split.
    """

    margin: float | None = None
    speed_up: float | None = None
    ttft_s: float | None = None
    every_task: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.margin is None and self.speed_up is None and self.ttft_s is None:
            raise ConfigError("give a goal: --margin, --speed-up or --ttft-target")
        if self.speed_up is not None and self.ttft_s is not None:
            raise ConfigError("give --speed-up or --ttft-target, not both")
        if self.margin is not None and not 0 < self.margin < 1:
            raise ConfigError(f"--margin {self.margin:g}: give a loss between 0 and 1, as 0.05")
        for name, value in (("--speed-up", self.speed_up), ("--ttft-target", self.ttft_s)):
            if value is not None and not 0 < value < math.inf:
                raise ConfigError(f"{name} {value:g}: give a number above 0")

    @property
    def limit(self) -> float | None:
        """Upper limit of a block's log value: log(1 / speed-up), or log seconds."""
        if self.speed_up is not None:
            return -math.log(self.speed_up)
        return None if self.ttft_s is None else math.log(self.ttft_s)

    @property
    def column(self) -> str:
        """Column of the blocks that :attr:`limit` is about."""
        return "arm_log" if self.ttft_s is not None else "r"


@dataclass(frozen=True)
class Look:
    """One keep rate on one half.

    Attributes
    ----------
    quality
        Mean difference to full prefill over the examples of all tasks.
    by_task
        The same by task.
    quality_p, ttft_p
        One-sided p of "loses more than the margin" and "misses the TTFT goal"; None where it
        could not be tested, or was not asked for.
    ttft
        Location of the blocks' log values (see :attr:`Goal.column`).
    """

    keep: float
    keep_achieved: float | None
    quality: Estimate
    by_task: dict[str, Estimate]
    quality_p: float | None
    ttft: Shift
    ttft_p: float | None


@dataclass(frozen=True)
class Calibration:
    """Steps on the calibration half, the choice, and the one look at the held-out half."""

    rates: KeepRates
    goal: Goal
    steps: tuple[Look, ...]
    chosen: float | None
    held_out: Look | None
    clusters: tuple[int, int]

    @property
    def confirmed(self) -> bool | None:
        """Whether the held-out half shows every goal too; None where nothing was chosen."""
        if self.held_out is None:
            return None
        wanted = []
        if self.goal.margin is not None:
            wanted.append(self.held_out.quality_p)
        if self.goal.limit is not None:
            wanted.append(self.held_out.ttft_p)
        return all(p is not None and p <= ALPHA for p in wanted)

    @property
    def exit_code(self) -> ExitCode:
        """Pass where confirmed; regression where a loss above the margin is shown held out."""
        look, margin = self.held_out, self.goal.margin
        if self.confirmed:
            return ExitCode.PASS
        if look is not None and margin is not None:
            high = look.quality.high
            if high is not None and high < -margin:
                return ExitCode.REGRESSION
        return ExitCode.INCONCLUSIVE


def passes(look: Look, goal: Goal) -> bool:
    """Whether a look passes the sequence's test: quality where a margin is given, else TTFT."""
    p = look.quality_p if goal.margin is not None else look.ttft_p
    return p is not None and p <= ALPHA


def calibrate(rates: KeepRates, goal: Goal) -> Calibration:
    """Choose a keep rate.

    Returns
    -------
    Calibration
        ``steps`` ends with the first failure: rates beyond it are never looked at. A failure on
        the held-out half is reported, and changes nothing.
    """
    pairs = {(d.cell.task, c) for rate in rates.rates for d in rate.tasks for c in d.clusters}
    half = calibration_half(pairs, goal.seed)
    everything = {cluster for _, cluster in pairs}
    steps: list[Look] = []
    chosen: KeepRate | None = None
    for rate in rates.rates if goal.margin is not None else reversed(rates.rates):
        look = _look(rate, half, goal)
        steps.append(look)
        if not passes(look, goal):
            break
        chosen = rate
    held_out = None if chosen is None else _look(chosen, frozenset(everything - half), goal)
    return Calibration(
        rates,
        goal,
        tuple(steps),
        None if chosen is None else chosen.keep,
        held_out,
        (len(half), len(everything) - len(half)),
    )


def _look(rate: KeepRate, half: frozenset[str], goal: Goal) -> Look:
    values, names, by_task = [], [], {}
    for part in rate.tasks:
        mine = np.array([cluster in half for cluster in part.clusters], bool)
        clusters = [c for c in part.clusters if c in half]
        by_task[part.cell.task] = paired_difference(part.values[mine], clusters)
        values.append(part.values[mine])
        names += clusters
    quality = paired_difference(np.concatenate(values), names)
    tested = list(by_task.values()) if goal.every_task else [quality]
    blocks = rate.blocks[rate.blocks["cluster"].isin(half)]
    logs = blocks[goal.column].to_numpy(float)
    return Look(
        rate.keep,
        rate.keep_achieved,
        quality,
        by_task,
        None if goal.margin is None else _worst_p(tested, goal.margin),
        hodges_lehmann(logs),
        None if goal.limit is None else signed_rank_p(logs, goal.limit, above=False),
    )


def _worst_p(estimates: list[Estimate], margin: float) -> float | None:
    """Largest p of "loses more than the margin": where every part must hold, it decides."""
    p_values = [None if e.fit is None else e.fit.p_above(-margin) for e in estimates]
    known = [p for p in p_values if p is not None]
    return max(known) if known and len(known) == len(p_values) else None
