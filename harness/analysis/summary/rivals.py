"""Pruning arms against each other: paired by example, at the same keep rate, Holm over the run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from harness.analysis.stats.estimate import Estimate
from harness.analysis.stats.holm import holm
from harness.analysis.stats.jackknife import paired_difference
from harness.analysis.stats.power import examples_to_tell
from harness.analysis.stats.stratified import Stratum, stratified_difference
from harness.analysis.summary.categories import macro_weights
from harness.analysis.summary.cells import PooledCell
from harness.analysis.summary.scores import RunScores, Scores, pair
from harness.analysis.verdict import MARGIN, between_rivals
from harness.schema.estimates import Delta
from harness.schema.rows import RivalComparison

CONTROLS = frozenset({"random", "truncate_middle"})
"""Methods that are there to be beaten: they are compared with others, not with each other."""


@dataclass(frozen=True)
class Side:
    """One arm's scores on one task that the model can do."""

    cell: PooledCell
    scores: Scores


@dataclass(frozen=True)
class _Pair:
    """Two arms over the tasks of a group, and what is measured between them."""

    arm: tuple[Side, ...]
    rival: tuple[Side, ...]
    estimate: Estimate
    needed: int | None

    @property
    def p(self) -> float | None:
        fit = self.estimate.fit
        return None if fit is None else fit.p_two_sided()


def rival_comparisons(sides: Sequence[Side], scores: RunScores) -> list[RivalComparison]:
    """Compare every two pruning arms of a group at one length and one keep rate.

    Parameters
    ----------
    sides
        Arms on tasks, floor tasks left out; full prefill and arms without a keep rate are no
        rivals, since nothing says at what they would be equal.

    Returns
    -------
    list of RivalComparison
        Several tasks are weighed as their benchmark weighs them. Pairs that did not both finish
        the same examples of every task are left out.
    """
    found = [pair for arms in _at_one_rate(sides) for pair in _pairs(arms, scores)]
    adjusted = holm([pair.p for pair in found])
    return [_row(pair, p) for pair, p in zip(found, adjusted, strict=True)]


def _at_one_rate(sides: Sequence[Side]) -> Iterator[list[tuple[Side, ...]]]:
    """Arms, each with its tasks, that share group, length, keep rate and engine."""
    places: dict[tuple[object, ...], dict[str, list[Side]]] = {}
    for side in sides:
        first = side.cell.first
        if side.cell.is_reference or first.keep is None or side.cell.stopped is not None:
            continue
        place = (first.group, side.cell.length, first.keep, first.engine, first.dtype)
        places.setdefault(place, {}).setdefault(side.cell.arm, []).append(side)
    for arms in places.values():
        yield [tuple(members) for members in arms.values()]


def _pairs(arms: Sequence[tuple[Side, ...]], scores: RunScores) -> Iterator[_Pair]:
    for arm, rival in combinations(arms, 2):
        if [s.cell.task for s in arm] != [s.cell.task for s in rival]:
            continue
        if all(side[0].cell.first.method in CONTROLS for side in (arm, rival)):
            continue
        strata = []
        weights = macro_weights(arm[0].cell.first.group, [side.cell.first.category for side in arm])
        for one, other, weight in zip(arm, rival, weights, strict=True):
            codes, values = pair(one.scores, other.scores)
            whole = len(codes) == len(one.scores.codes) == len(other.scores.codes)
            if not whole or not len(codes) or np.isnan(values).any():
                break
            clusters = scores.clusters_of(codes)
            strata.append(Stratum(one.cell.task, weight, values, clusters))
        if len(strata) == len(arm):
            yield _Pair(arm, rival, *_measured(strata))


def _measured(strata: Sequence[Stratum]) -> tuple[Estimate, int | None]:
    """The difference with its interval, and the examples that would tell where it decides none."""
    if len(strata) == 1:
        values, clusters = strata[0].values, strata[0].clusters
        estimate = paired_difference(values, clusters)
    else:
        estimate = stratified_difference(strata)
        values = np.concatenate([part.values for part in strata])
        clusters = [name for part in strata for name in part.clusters]
    if estimate.low is None or estimate.high is None or estimate.mean is None:
        return estimate, None
    if max(-estimate.low, estimate.high) < MARGIN:
        return estimate, None
    towards = values if estimate.mean < 0 else -values
    return estimate, examples_to_tell(towards, clusters, MARGIN)


def _row(found: _Pair, p_holm: float | None) -> RivalComparison:
    first, estimate = found.arm[0].cell, found.estimate
    return RivalComparison(
        group=first.first.group,
        tasks=tuple(side.cell.task for side in found.arm),
        length=first.length,
        keep=first.first.keep,
        arm=first.arm,
        rival=found.rival[0].cell.arm,
        delta=Delta(
            mean=estimate.mean,
            low=estimate.low,
            high=estimate.high,
            reason=estimate.reason,
            n=estimate.n,
            clusters=estimate.clusters,
            p=found.p,
            p_holm=p_holm,
        ),
        verdict=between_rivals(estimate, p_holm, found.needed),
    )
