"""Power at the n that a small pilot plans, by simulation: the pilot's own spread, and the cautious.

Pilots of independent examples, of which a share changes (half gained, half lost), plan for 80 %;
the power at each planned n is that of fresh data. Printed: mean power, and share of pilots whose
plan reaches 78 % or more.

    nice python benchmarks/pilot_power.py > benchmarks/pilot_power.txt
"""

from __future__ import annotations

import numpy as np
from scipy import special

from harness.analysis.stats.power import examples_needed, pilot_of

PILOTS, SETS, REACHED = 200, 400, 0.78


def power(rng: np.random.Generator, n: int, changed: float, margin: float) -> float:
    """Share of data sets of ``n`` whose 95 % interval excludes the margin; nothing is lost."""
    gained, lost, _ = rng.multinomial(n, [changed / 2, changed / 2, 1 - changed], size=SETS).T
    mean = (gained - lost) / (n + 2)
    se = np.sqrt(((gained + lost + 2) / (n + 2) - mean**2) / (n + 1))
    return float(np.mean(mean - special.stdtrit(n + 1, 0.975) * se > -margin))


def main() -> None:
    """Print the table as Markdown."""
    rng = np.random.default_rng(0)
    print("| pilot n | changed | margin | as the pilot | cautious |")
    print("|---|---|---|---|---|")
    for size in (12, 20, 50):
        names = [str(i) for i in range(size)]
        for changed in (0.05, 0.2, 0.4):
            for margin in (0.05, 0.1):
                found: tuple[list[float], list[float]] = ([], [])
                for _ in range(PILOTS):
                    chances = [changed / 2, changed / 2, 1 - changed]
                    pilot = pilot_of(rng.choice([1.0, -1.0, 0.0], size, p=chances), names)
                    assert pilot is not None
                    for powers, phi in zip(found, (pilot.phi, pilot.cautious), strict=True):
                        n = examples_needed(margin, phi)
                        assert n is not None
                        powers.append(power(rng, n, changed, margin))
                cells = [
                    f"{np.mean(p):.2f} ({np.mean(np.array(p) >= REACHED):.0%} reach it)"
                    for p in found
                ]
                print(f"| {size} | {changed} | {margin} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
