"""What an estimate carries: a point, an interval or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scipy import special

MIN_CLUSTERS = 5
"""Fewer independent clusters than this give no interval: a t on so few says nothing honest."""

LEVEL = 0.95
"""Two-sided confidence level wherever none is named."""


@dataclass(frozen=True, slots=True)
class StudentT:
    """A location with its standard error, referred to Student's t.

    Attributes
    ----------
    centre
        The estimate the interval is centred on; shrunk, so not always the point shown.
    se
        Standard error of ``centre``, in the unit of the scores; positive.
    df
        Degrees of freedom.
    """

    centre: float
    se: float
    df: float

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Return the two-sided interval at ``level``."""
        half = float(special.stdtrit(self.df, 0.5 + level / 2)) * self.se
        return self.centre - half, self.centre + half

    def p_below(self, value: float = 0.0) -> float:
        """One-sided p of "not below ``value``": small where the data lie clearly below it."""
        return float(special.stdtr(self.df, (self.centre - value) / self.se))

    def p_above(self, value: float = 0.0) -> float:
        """One-sided p of "not above ``value``": small where the data lie clearly above it."""
        return float(special.stdtr(self.df, (value - self.centre) / self.se))

    def p_two_sided(self, value: float = 0.0) -> float:
        """Two-sided p of "equal to ``value``"."""
        return min(1.0, 2 * min(self.p_below(value), self.p_above(value)))


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its interval.

    Attributes
    ----------
    mean
        The raw mean over examples; None of an empty set, or where a score is missing.
    low, high
        Ends of the interval at ``level``; None where there is none, with ``reason``.
    n, clusters
        Examples, and independent clusters among them.
    method
        ``wilson``, ``jackknife`` or ``bca``; None without an interval.
    fit
        The t behind the interval, for tests at other levels; None for other methods.
    """

    mean: float | None
    low: float | None
    high: float | None
    n: int
    clusters: int
    method: str | None = None
    level: float = LEVEL
    reason: str | None = None
    fit: StudentT | None = None

    def to_json(self) -> dict[str, Any]:
        """Return ``{"mean", "low", "high"}``, and ``reason`` where an end is missing."""
        out: dict[str, Any] = {"mean": self.mean, "low": self.low, "high": self.high}
        if self.reason is not None:
            out["reason"] = self.reason
        return out


def missing(reason: str, n: int = 0, clusters: int = 0) -> Estimate:
    """Return an estimate without a value: missing is None with a reason (DESIGN.md, rule 1)."""
    return Estimate(None, None, None, n, clusters, reason=reason)


def too_few_clusters(clusters: int) -> str:
    """Say why there is no interval."""
    noun = "cluster" if clusters == 1 else "clusters"
    return f"{clusters} independent {noun}; an interval needs {MIN_CLUSTERS}"
