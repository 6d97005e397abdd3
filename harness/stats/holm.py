"""Holm's step-down adjustment for many tests that are read together."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return adjusted p-values (Holm, Scand. J. Stat. 6, 1979), in the order given.

    None stands for a test that could not be made; it stays None and does not count.

    >>> holm([0.01, None, 0.04])
    [0.02, None, 0.04]
    """
    known = [p for p in p_values if p is not None]
    if not known:
        return list(p_values)
    from statsmodels.stats.multitest import multipletests

    adjusted = iter(float(p) for p in multipletests(known, method="holm")[1])
    return [None if p is None else next(adjusted) for p in p_values]
