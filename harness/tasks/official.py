"""RULER's lengths as NVIDIA's scripts fill them, for figures beside published ones.

There a length holds the prompt *and* the tokens to be generated. One size of the filler is found
for a whole set, the largest that fits on a sample drawn for that; samples that turn out longer
are made smaller in steps until they fit. So most prompts are shorter than they might be.

Source: NVIDIA/RULER, scripts/data/synthetic (its commit c3f5e3b).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from harness.tasks.framing import Frame, largest_fit

Measure = Callable[[int], int]
"""Tokens of a sample's prompt with so many units of filler."""


@dataclass(frozen=True, slots=True)
class Steps:
    """How a task's script searches.

    Attributes
    ----------
    down
        Units taken away at a time from a sample that does not fit.
    start
        Where the search for the common size starts, going up in steps of ``down``; None where
        every size is tried.
    """

    down: int
    start: int | None = None


class Stepped(Protocol):
    """A sample whose units are those of NVIDIA's script for its task."""

    low: int
    high: int
    unit: float

    def guess(self, budget: int) -> int:
        """About how many units make a prompt of ``budget`` tokens."""

    def steps(self, asked: int, budget: int) -> Steps:
        """How the script searches at the length ``asked``, of which the prompt has ``budget``."""


def uncounted(frame: Frame) -> int:
    """Tokens of a prompt that the scripts do not count: a start token outside a chat template."""
    return 0 if frame.chat else len(frame.tokenizer.encode(frame.tokenizer.plain("")))


def common_size(pilot: Stepped, measure: Measure, steps: Steps, budget: int) -> int:
    """Units that a set's samples start with: the most that fit on the pilot sample."""
    if steps.start is not None:
        units = steps.start
        while measure(units) < budget:
            units += steps.down
        return units - steps.down
    guess = pilot.guess(budget)
    low = max(pilot.low, 1)
    found = largest_fit(measure, budget, guess=guess, unit=pilot.unit, low=low, high=pilot.high)
    if found is None:
        return steps.down
    while found < pilot.high and measure(found + 1) <= budget:
        found += 1
    return max(found, steps.down)


def stepped_down(measure: Measure, units: int, steps: Steps, budget: int, low: int) -> int | None:
    """Units of one sample; None where even the fewest do not fit.

    The scripts never go below one step's worth and would try for ever; what fits below it is
    taken here.
    """
    while measure(units) > budget:
        if units <= low:
            return None
        units = max(units - steps.down, low) if units > steps.down else low
    return units
