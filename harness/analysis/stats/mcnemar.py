"""McNemar's mid-p test: descriptive only, where every cluster holds one right-or-wrong item."""

from __future__ import annotations

from dataclasses import dataclass

from scipy import stats


@dataclass(frozen=True, slots=True)
class McNemar:
    """Discordant pairs and their mid-p.

    Attributes
    ----------
    gained, lost
        Items right only under the arm, and only under the reference.
    mid_p
        Two-sided mid-p (Fagerland, Lydersen and Laake, BMC Med. Res. Methodol. 13, 2013).
    """

    gained: int
    lost: int
    mid_p: float


def mcnemar(gained: int, lost: int) -> McNemar:
    """Compare discordant pairs with a fair coin.

    >>> round(mcnemar(1, 8).mid_p, 4)
    0.0215
    """
    total = gained + lost
    coin = stats.binom(total, 0.5)
    smaller = min(gained, lost)
    mid_p = 2 * float(coin.cdf(smaller)) - float(coin.pmf(smaller))
    return McNemar(gained, lost, min(1.0, mid_p))
