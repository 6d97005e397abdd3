"""Coverage of the clustered intervals by intra-cluster correlation, by simulation.

Every design of paired differences below is simulated with answers of a cluster that change alike
(beta-binomial, and whole clusters at once), with losses only and with gains and losses. Printed
are, by design and correlation, the *worst* figures over the mixes of changes: per cent of 95 %
intervals that hold the truth, per cent of true losses of exactly the margin that would pass a gate
at that margin (lower end above the truth; 2.5 is nominal), and the mean half-width with its cost
against pseudo-clusters of one item.

    nice python benchmarks/coverage.py --sets 4000 > benchmarks/coverage.txt
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
from scipy import special

from harness.analysis.stats.jackknife import DIFFERENCE_BOUNDS, Floats, augmented_t, jackknife_t

DESIGNS: dict[str, Floats] = {
    "50 × 1": np.ones(50),
    "25 × 2": np.full(25, 2.0),
    "10 × 5": np.full(10, 5.0),
    "20 × 5": np.full(20, 5.0),
    "15 × 10": np.full(15, 10.0),
    "10 × 20": np.full(10, 20.0),
    "18 of 1–8": np.array([8, 6, 5, 4, 4, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1], float),
    "12 of 1–15": np.array([15, 10, 8, 6, 5, 4, 3, 3, 2, 2, 1, 1], float),
    "40 of 1–12": np.repeat([1.0, 2.0, 5.0, 12.0], 10),
}
CORRELATIONS = (0.0, 0.1, 0.3, 0.6)
CHANGES = (
    (0.0, 0.01), (0.0, 0.02), (0.0, 0.05), (0.0, 0.1), (0.0, 0.15), (0.0, 0.25),
    (0.02, 0.05), (0.05, 0.15), (0.15, 0.15),
)  # fmt: skip
"""Chances that an answer is gained and lost; six losses only."""


def changes(
    rng: np.random.Generator, sizes: Floats, gain: float, loss: float, icc: float, *, sets: int
) -> Iterator[Floats]:
    """Sums by cluster, shape (sets, G), once a model of how a cluster's answers change alike."""
    shape, changed, items = (sets, len(sizes)), gain + loss, sizes.astype(int)
    sign = np.where(rng.random(shape) < gain / changed, 1.0, -1.0)
    if icc == 0:
        lost = rng.binomial(items, loss, shape)
        yield (rng.binomial(items - lost, gain / (1 - loss)) - lost).astype(float)
        return
    spread = (1 - icc) / icc
    chance = rng.beta(changed * spread, (1 - changed) * spread, shape)
    yield sign * rng.binomial(items, chance)
    whole = (rng.random(shape) < changed) * items
    yield sign * np.where(rng.random(shape) < icc, whole, rng.binomial(items, changed, shape))


def of_one_item(sums: Floats, sizes: Floats) -> tuple[Floats, Floats, int]:
    """The interval with pseudo-clusters of one item: what the widths are compared with."""
    sizes = np.broadcast_to(sizes, sums.shape)
    ends = np.broadcast_to(np.asarray(DIFFERENCE_BOUNDS), (len(sums), 2))
    sums = np.concatenate([sums, ends], axis=1)
    return jackknife_t(sums, np.concatenate([sizes, np.ones_like(ends)], axis=1))


def figures(sizes: Floats, icc: float, sets: int, seed: int) -> tuple[str, str]:
    """Worst coverage, false passes, mean half-width and its cost; the first two of one item."""
    rng = np.random.default_rng(seed)
    coverage: tuple[list[float], list[float]] = ([], [])
    passes: tuple[list[float], list[float]] = ([], [])
    widths: tuple[list[float], list[float]] = ([], [])
    for gain, loss in CHANGES:
        for sums in changes(rng, sizes, gain, loss, icc, sets=sets):
            for kind, (centre, se, df) in enumerate(
                (augmented_t(sums, sizes, DIFFERENCE_BOUNDS), of_one_item(sums, sizes))
            ):
                half, truth = special.stdtrit(df, 0.975) * se, gain - loss
                coverage[kind].append(100 * float(np.mean(np.abs(centre - truth) <= half)))
                passes[kind].append(100 * float(np.mean(centre - half > truth)))
                widths[kind].append(float(half.mean()))
    mean = float(np.mean(widths[0]))
    shown = [f"{min(coverage[kind]):.1f} / {max(passes[kind]):.1f}" for kind in (0, 1)]
    return f"{shown[0]} / ±{mean:.3f} ×{mean / float(np.mean(widths[1])):.2f}", shown[1]


def main() -> None:
    """Print two tables as Markdown: the intervals in use, and with pseudo-clusters of one item."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=4_000, help="data sets a mix of changes")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    found = {}
    for name, sizes in DESIGNS.items():
        alone = sizes.max() == 1
        found[name] = [
            ("–", "–") if alone and icc else figures(sizes, icc, asked.sets, asked.seed)
            for icc in CORRELATIONS
        ]
    for kind, title in enumerate(("clusters × items", "of one item")):
        print(f"| {title} | {' | '.join(f'ICC {icc:g}' for icc in CORRELATIONS)} |")
        print("|---" * (len(CORRELATIONS) + 1) + "|")
        for name, cells in found.items():
            print(f"| {name} | {' | '.join(cell[kind] for cell in cells)} |")
        print()


if __name__ == "__main__":
    main()
