"""Where a score's variance comes from: the items, or the seeds of selector and sampling."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.analysis.stats.jackknife import Floats


@dataclass(frozen=True, slots=True)
class VarianceSplit:
    """Components of variance of single scores.

    Attributes
    ----------
    items
        Variance between examples; None with fewer than two.
    seeds
        Variance between repetitions of one example under other seeds; None where each ran once.
    deterministic
        True where repetitions were made and none differed; None where none were made.
    """

    items: float | None
    seeds: float | None
    deterministic: bool | None


def split_variance(scores: Floats) -> VarianceSplit:
    """Split the variance of a complete table of scores by one-way random effects.

    The expected mean squares of the balanced one-way layout (Searle, Casella and McCulloch,
    *Variance Components*, 1992, ch. 3): seeds = MS within; items = (MS between − MS within) / R,
    cut off at 0.

    Parameters
    ----------
    scores
        Shape (n examples, R repetitions), finite.
    """
    n, repeats = scores.shape
    within = float(scores.var(axis=1, ddof=1).mean()) if repeats > 1 and n else None
    between = float(scores.mean(axis=1).var(ddof=1)) if n > 1 else None
    if between is not None and within is not None:
        between = max(0.0, between - within / repeats)
    same = bool((scores == scores[:, :1]).all()) if repeats > 1 and n else None
    return VarianceSplit(between, within, same)


def mean_of_repeats(scores: Floats) -> Floats:
    """Average each example over its seeds before anything else; shape (n, R) → (n,).

    Selector and sampling seeds repeat an example, they do not make new ones: counting them as
    items would narrow every interval without new evidence.
    """
    return np.asarray(scores.mean(axis=1))
