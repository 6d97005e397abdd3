"""TTFT ratios from ABBA blocks: Hodges–Lehmann with the Wilcoxon signed-rank interval.

A block times one prompt four times, A B B A or B A A B, so that a linear drift of the machine
cancels. Its value is r = mean log B − mean log A. The estimate is the median of the Walsh
averages (Hodges and Lehmann, Ann. Math. Stat. 34, 1963); the interval's ends are the Walsh
averages at the quantile of the exact signed-rank distribution (Hollander, Wolfe and Chicken,
*Nonparametric Statistical Methods*, 3rd ed., 3.3), so no outlier can stretch it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import special, stats

from harness.analysis.stats.estimate import LEVEL
from harness.analysis.stats.jackknife import Floats

MIN_BLOCKS = 6
"""Six blocks are the fewest whose exact two-sided 95 % interval is finite (2 / 2⁶ < 0.05)."""

EXACT_BLOCKS = 200
"""Above this many blocks the normal approximation of the signed-rank distribution is used."""

ORDER_LIMIT = 0.10
"""Largest order effect of log TTFT that is tolerated where it is significant (about 10 %)."""


ROUNDING = 1e-12
"""Logs that differ by less than this differ by rounding only."""


@dataclass(frozen=True, slots=True)
class Shift:
    """A location of logs with its interval; None ends carry ``reason``."""

    estimate: float | None
    low: float | None
    high: float | None
    n: int
    reason: str | None = None


def log_ratio(reference_s: Floats, arm_s: Floats) -> float:
    """Return r of one block from the seconds of its reference and of its arm requests."""
    return float(np.log(arm_s).mean() - np.log(reference_s).mean())


def walsh_averages(values: Floats) -> Floats:
    """Return the n (n + 1) / 2 sorted means of all pairs, each value with itself included."""
    rows, columns = np.triu_indices(len(values))
    return np.sort((values[rows] + values[columns]) / 2)


def hodges_lehmann(values: Floats, level: float = LEVEL) -> Shift:
    """Median of the Walsh averages, with the signed-rank interval.

    Parameters
    ----------
    values
        One r a block, shape (n,); fewer than :data:`MIN_BLOCKS` give no interval.
    level
        Two-sided level; the exact interval covers at least this often.
    """
    values = np.asarray(values, float)
    n = len(values)
    if n == 0:
        return Shift(None, None, None, 0, "no latency blocks")
    walsh = walsh_averages(values)
    estimate = float(np.median(walsh))
    if n < MIN_BLOCKS:
        noun = "block" if n == 1 else "blocks"
        return Shift(estimate, None, None, n, f"{n} latency {noun}; an interval needs {MIN_BLOCKS}")
    cut = signed_rank_cut(n, (1 - level) / 2)
    if cut == 0:
        return Shift(estimate, None, None, n, f"{n} latency blocks cannot reach level {level:g}")
    return Shift(estimate, float(walsh[cut - 1]), float(walsh[-cut]), n)


@cache
def signed_rank_cut(n: int, tail: float) -> int:
    """Return the largest c with P(T⁺ < c) ≤ ``tail``: the c-th smallest Walsh average is an end.

    0 where even the smallest value of T⁺ is likelier than ``tail``.
    """
    if n > EXACT_BLOCKS:
        mean, sd = n * (n + 1) / 4, math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
        return max(0, math.floor(mean + float(special.ndtri(tail)) * sd))
    below = np.cumsum(_signed_rank_pmf(n))
    return int(np.searchsorted(below, tail * (1 + 1e-12), side="right"))


def _signed_rank_pmf(n: int) -> Floats:
    """Probabilities of T⁺ = 0 … n (n + 1) / 2 when each rank's sign is a fair coin."""
    pmf = np.ones(1)
    for rank in range(1, n + 1):
        shifted = np.concatenate([np.zeros(rank), pmf])
        shifted[: len(pmf)] += pmf
        pmf = shifted / 2
    return np.asarray(pmf, float)


def signed_rank_p(values: Floats, limit: float, *, above: bool) -> float | None:
    """One-sided signed-rank p that the location lies above (or below) ``limit``.

    None below :data:`MIN_BLOCKS`. Values equal to the limit are split evenly (Pratt's zeros).
    """
    if len(values) < MIN_BLOCKS:
        return None
    moved = np.asarray(values, float) - limit
    if not moved.any():
        return 1.0
    side = "greater" if above else "less"
    return float(stats.wilcoxon(moved, alternative=side, zero_method="zsplit").pvalue)


def two_sample_shift(before: Floats, after: Floats, level: float = LEVEL) -> Shift:
    """Hodges–Lehmann shift after − before of two independent sets of blocks.

    The median of all pairwise differences; the ends are ordered differences at the quantile of
    the Mann–Whitney statistic (Hollander, Wolfe and Chicken, 4.3), normal with continuity
    correction above :data:`EXACT_BLOCKS`, else exact.
    """
    m, n = len(before), len(after)
    if min(m, n) < MIN_BLOCKS:
        reason = f"{m} and {n} latency blocks; a comparison needs {MIN_BLOCKS} on both sides"
        return Shift(None, None, None, min(m, n), reason)
    differences = np.sort(np.subtract.outer(np.asarray(after), np.asarray(before)).ravel())
    cut = _rank_sum_cut(m, n, (1 - level) / 2)
    return Shift(
        float(np.median(differences)), float(differences[cut - 1]), float(differences[-cut]), n
    )


def two_sample_p_above(before: Floats, after: Floats) -> float | None:
    """One-sided Mann–Whitney p of "after is not above before"; None with too few blocks."""
    if min(len(before), len(after)) < MIN_BLOCKS:
        return None
    return float(stats.mannwhitneyu(after, before, alternative="greater").pvalue)


@cache
def _rank_sum_cut(m: int, n: int, tail: float) -> int:
    """Largest c with P(U < c) ≤ tail; at least 1, which MIN_BLOCKS on both sides ensures."""
    if max(m, n) > EXACT_BLOCKS // 4:
        mean, sd = m * n / 2, math.sqrt(m * n * (m + n + 1) / 12)
        return max(1, math.floor(mean + float(special.ndtri(tail)) * sd))
    below = np.cumsum(_rank_sum_pmf(m, n))
    return max(1, int(np.searchsorted(below, tail * (1 + 1e-12), side="right")))


def _rank_sum_pmf(m: int, n: int) -> Floats:
    """Probabilities of U = 0 … m n under equal distributions.

    The largest of i + j values is either one of the i, which then beats all j others, or one of
    the j: count(i, j, u) = count(i − 1, j, u − j) + count(i, j − 1, u).
    """
    rows = [np.eye(1, m * n + 1).ravel() for _ in range(n + 1)]  # i = 0: U is 0
    for _ in range(m):
        new = [np.eye(1, m * n + 1).ravel()]
        for j in range(1, n + 1):
            counts = new[j - 1].copy()
            counts[j:] += rows[j][: len(counts) - j]
            new.append(counts)
        rows = new
    return np.asarray(rows[n] / rows[n].sum())


@dataclass(frozen=True, slots=True)
class OrderEffect:
    """Mean r of ABBA blocks minus that of BAAB blocks.

    Attributes
    ----------
    effect
        In log units; None with fewer than two blocks of either order.
    p
        Two-sided Welch p of "no effect".
    too_large
        The measurement is invalid: the effect is significant (p ≤ 0.05) and above
        :data:`ORDER_LIMIT`, so what is measured depends on who goes first.
    """

    effect: float | None
    p: float | None
    too_large: bool


def order_effect(abba: Floats, baab: Floats) -> OrderEffect:
    """Compare the two orders of the blocks, shapes (n,) and (m,)."""
    if min(len(abba), len(baab)) < 2:
        return OrderEffect(None, None, False)
    effect = float(np.mean(abba) - np.mean(baab))
    if max(np.ptp(abba), np.ptp(baab)) < ROUNDING:  # a t would be a ratio of rounding errors
        p = 1.0 if abs(effect) < ROUNDING else 0.0
    else:
        p = float(stats.ttest_ind(abba, baab, equal_var=False).pvalue)
    return OrderEffect(effect, p, abs(effect) > ORDER_LIMIT and p <= 0.05)


def lag1(values: Floats) -> float | None:
    """Lag-1 autocorrelation of the blocks' r in time order; None where it is not defined."""
    values = np.asarray(values, float)
    centred = values - values.mean() if len(values) else values
    total = float((centred**2).sum())
    if len(values) < 3 or total == 0:
        return None
    return float((centred[1:] * centred[:-1]).sum() / total)
