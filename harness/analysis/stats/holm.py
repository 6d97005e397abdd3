"""Holm's step-down adjustment for many tests that are read together."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return adjusted p-values (Holm, Scand. J. Stat. 6, 1979), in the order given.

    The k-th smallest of m p-values is multiplied by m − k + 1, and none may fall below the one
    before it. None stands for a test that could not be made; it stays None and does not count.
    (statsmodels' multipletests, which the tests compare with, collects garbage at every call.)

    >>> holm([0.01, None, 0.04])
    [0.02, None, 0.04]
    """
    adjusted: list[float | None] = [None] * len(p_values)
    known = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    largest = 0.0
    for rank, (p, index) in enumerate(known):
        largest = max(largest, min(1.0, p * (len(known) - rank)))
        adjusted[index] = largest
    return adjusted
