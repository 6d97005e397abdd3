"""Figures as rows print them: a point, its interval or the reason why there is none.

Missing is None with a reason, and every number is finite or None.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    SerializerFunctionWrapHandler,
    model_serializer,
)


def _finite(value: Any) -> Any:
    """None for what JSON cannot say: a ratio of zero seconds is no figure."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


Number = Annotated[float | None, BeforeValidator(_finite)]
"""A finite number, or None."""


class Part(BaseModel):
    """A frozen piece of a row; a field that it does not know is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Interval(Part):
    """A figure with its 95 % interval.

    Attributes
    ----------
    low, high
        Ends of the interval; None where there is none, with ``reason``.
    reason
        Why the figure or an end is missing; not printed where nothing is.
    """

    low: Number = None
    high: Number = None
    reason: str | None = None

    @property
    def value(self) -> float | None:
        """The point."""
        raise NotImplementedError

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The interval, or None where there is none."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    @model_serializer(mode="wrap")
    def _reason_where_there_is_one(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        out: dict[str, Any] = handler(self)
        if self.reason is None:
            del out["reason"]
        return out


class Estimate(Interval):
    """A mean score in [0, 1]."""

    mean: Number

    @property
    def value(self) -> float | None:
        """The mean."""
        return self.mean


class Discordance(Part):
    """Items right only under the arm (``gained``) and only under full prefill (``lost``)."""

    gained: int
    lost: int
    mid_p: Number


class Delta(Estimate):
    """Arm − full prefill, paired by example.

    Attributes
    ----------
    n, clusters
        Pairs, and independent clusters among them.
    p, p_holm
        Two-sided p of "no difference", raw and after Holm over the run's task rows.
    mcnemar
        Descriptive; only where every cluster holds one right-or-wrong item.
    """

    n: int
    clusters: int
    p: Number = None
    p_holm: Number = None
    mcnemar: Discordance | None = None


class Verdict(Part):
    """What a comparison is called (:mod:`harness.analysis.verdict`).

    Attributes
    ----------
    kind
        Of an arm against full prefill: ``improved``, ``non_inferior`` (a loss of the margin is
        excluded), ``worse``, ``undecided``, or ``floor``. Between rivals: ``better``, ``worse``,
        ``equivalent`` or ``undecided``.
    margin
        Loss, or difference between rivals, that is tolerated.
    needed
        Examples that would tell, of an undecided one; None where nothing says.
    detail
        One clause: why.
    """

    kind: Literal["improved", "non_inferior", "worse", "undecided", "floor", "better", "equivalent"]
    margin: float
    needed: int | None = None
    detail: str

    @property
    def words(self) -> str:
        """As tables say it: ``undecided (about 240 examples would tell)``."""
        name = self.kind.replace("_", "-")
        return name if self.needed is None else f"{name} (about {self.needed} examples would tell)"


class SpeedUp(Interval):
    """Seconds of full prefill over seconds of the arm, at one length.

    Attributes
    ----------
    ratio, low, high
        exp of the Hodges–Lehmann estimate of −r and its interval; above 1 the arm is faster.
        All None where an order effect makes the measurement invalid, with ``reason``.
    blocks
        Complete blocks behind it.
    sessions
        Starts of the engines behind the blocks: an interval from one says only that process. None
        in rows of older versions.
    order_effect, order_p
        Mean r of ABBA blocks minus BAAB's, in log units, with Welch's p.
    lag1
        Lag-1 autocorrelation of r in time order.
    """

    ratio: Number
    blocks: int
    sessions: int | None = None
    order_effect: Number = None
    order_p: Number = None
    lag1: Number = None

    @property
    def value(self) -> float | None:
        """The ratio."""
        return self.ratio


class Seconds(Part):
    """Seconds of single requests (batch 1).

    Attributes
    ----------
    median
        None where none was timed.
    kernel
        What computed the attention behind them, where the method names it.
    """

    median: Number = None
    requests: int = 0
    kernel: str | None = None


class Variance(Part):
    """Variance of single scores between items, and between repetitions of one item."""

    items: Number
    seeds: Number
