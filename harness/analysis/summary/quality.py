"""Scores and paired differences as estimates, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.analysis.stats.bca import bca_mean
from harness.analysis.stats.estimate import Estimate, missing
from harness.analysis.stats.jackknife import Floats, paired_difference
from harness.analysis.stats.mcnemar import McNemar, mcnemar
from harness.analysis.stats.rates import mean_score
from harness.analysis.stats.stratified import Stratum, stratified_difference
from harness.analysis.summary.categories import OVER_CATEGORIES, macro_weights
from harness.analysis.summary.notes import no_score
from harness.analysis.summary.scores import RunScores, Scores, pair
from harness.analysis.verdict import needed_for, verdict_of
from harness.schema import estimates, rows


@dataclass(frozen=True)
class Comparison:
    """Arm − full prefill.

    Attributes
    ----------
    estimate
        What p-values and remarks go by.
    p
        Two-sided p of "no difference".
    mcnemar
        Only where every cluster holds one right-or-wrong item.
    shown
        What is printed in place of ``estimate``, where another interval was asked for.
    needed
        Examples that would tell, where nothing is excluded yet.
    """

    estimate: Estimate
    p: float | None = None
    mcnemar: McNemar | None = None
    shown: Estimate | None = None
    needed: int | None = None

    def verdict(self, p_holm: float | None = None) -> estimates.Verdict | None:
        """What it is called; None where there is no difference at all."""
        if self.estimate.mean is None:
            return None
        return verdict_of(self.estimate, self.p if p_holm is None else p_holm, self.needed)

    def printed(self, p_holm: float | None = None) -> estimates.Delta:
        """Return what a row prints of it."""
        counts, found = self.mcnemar, self.shown or self.estimate
        return estimates.Delta(
            mean=found.mean,
            low=found.low,
            high=found.high,
            reason=found.reason,
            n=self.estimate.n,
            clusters=self.estimate.clusters,
            p=self.p,
            p_holm=p_holm,
            mcnemar=None
            if counts is None
            else estimates.Discordance(gained=counts.gained, lost=counts.lost, mid_p=counts.mid_p),
        )


def printed(found: Estimate) -> estimates.Estimate:
    """Return what a row prints of a mean."""
    return estimates.Estimate(mean=found.mean, low=found.low, high=found.high, reason=found.reason)


@dataclass(frozen=True)
class MacroPart:
    """One task of an average over tasks; ``reference`` is full prefill's, None without one."""

    task: str
    category: str
    scores: Scores
    reference: Scores | None


class QualityEstimates:
    """Estimates over a run's scores.

    Parameters
    ----------
    scores
        The run's scores.
    bca_seed
        Show BCa intervals with this seed; None: those of the rest of the package.
    """

    def __init__(self, scores: RunScores, bca_seed: int | None = None) -> None:
        self.scores = scores
        self.bca_seed = bca_seed

    def score(self, scores: Scores, stopped: str | None = None) -> Estimate:
        """Mean score of an arm; ``stopped`` says why it can have none, if so."""
        if stopped is not None:
            return missing(stopped, len(scores.codes))
        if not len(scores.codes):
            return missing("no finished examples")
        if len(scores.missing):
            return missing(self._why_missing(scores), len(scores.codes))
        clusters = self.scores.clusters_of(scores.codes)
        return self._shown(mean_score(scores.values, clusters), scores.values, clusters)

    def delta(self, scores: Scores, reference: Scores, stopped: str | None = None) -> Comparison:
        """Arm − reference over the examples that both have finished."""
        if stopped is not None:
            return Comparison(self.score(scores, stopped))
        codes, differences = pair(scores, reference)
        if not len(codes):
            return Comparison(missing("no example is finished under both the arm and full prefill"))
        if np.isnan(differences).any():
            lacking = scores if len(scores.missing) else reference
            return Comparison(missing(self._why_missing(lacking), len(codes)))
        clusters = self.scores.clusters_of(codes)
        estimate = paired_difference(differences, clusters)
        p = None if estimate.fit is None else estimate.fit.p_two_sided()
        plain = len(set(clusters)) == len(clusters)
        return Comparison(
            estimate,
            p,
            mcnemar=_discordance(scores, reference) if plain else None,
            shown=self._shown(estimate, differences, clusters),
            needed=needed_for(estimate, differences, clusters),
        )

    def macro(
        self, group: str, parts: Sequence[MacroPart], stopped: str | None = None
    ) -> rows.Macro | None:
        """Score and difference as the group's benchmark averages its tasks; None where one lacks.

        Parameters
        ----------
        parts
            A task each.
        """
        whole = all(len(p.scores.codes) and not len(p.scores.missing) for p in parts)
        if stopped is not None or not whole:
            return None
        weights = macro_weights(group, [part.category for part in parts])
        means = [float(part.scores.values.mean()) for part in parts]
        compared = self._macro_delta(parts, weights)
        return rows.Macro(
            score=sum(w * mean for w, mean in zip(weights, means, strict=True)),
            delta=None if compared is None else compared.printed(),
            verdict=None if compared is None else compared.verdict(),
            weighs="categories" if group in OVER_CATEGORIES else "tasks",
        )

    def _macro_delta(
        self, parts: Sequence[MacroPart], weights: Sequence[float]
    ) -> Comparison | None:
        strata = []
        for part, weight in zip(parts, weights, strict=True):
            if part.reference is None:
                return None
            codes, differences = pair(part.scores, part.reference)
            if not len(codes) or np.isnan(differences).any():
                return None
            clusters = self.scores.clusters_of(codes)
            strata.append(Stratum(part.task, weight, differences, clusters))
        found = stratified_difference(strata)
        values = np.concatenate([part.values for part in strata])
        clusters = [name for part in strata for name in part.clusters]
        return Comparison(
            found,
            None if found.fit is None else found.fit.p_two_sided(),
            needed=needed_for(found, values, clusters),
        )

    def _shown(self, estimate: Estimate, values: Floats, clusters: list[str]) -> Estimate:
        """Put the bootstrap's interval in place of the default one, where it was asked for."""
        if self.bca_seed is None or estimate.low is None:
            return estimate
        return bca_mean(values, clusters, self.bca_seed)

    def _why_missing(self, scores: Scores) -> str:
        ids = self.scores.example_ids[scores.missing]
        return no_score(self.scores.reason_of(ids[0]), list(ids), scores.values)


def _discordance(scores: Scores, reference: Scores) -> McNemar | None:
    """Count discordant pairs; None where a score is neither 0 nor 1."""
    shared, mine, theirs = np.intersect1d(
        scores.codes, reference.codes, assume_unique=True, return_indices=True
    )
    a, b = scores.values[mine], reference.values[theirs]
    if not (len(shared) and np.isin(a, (0, 1)).all() and np.isin(b, (0, 1)).all()):
        return None
    return mcnemar(int(((a == 1) & (b == 0)).sum()), int(((a == 0) & (b == 1)).sum()))
