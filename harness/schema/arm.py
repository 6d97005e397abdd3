"""An arm's facts, and the names that are made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Arm:
    """A method with its knobs at one keep rate, look-ahead and method seed.

    Names are made of facts and never taken apart again: whoever wants an arm's keep rate, or the
    curve that it is a point of, reads the field.

    Attributes
    ----------
    base
        The name that the user gave, as it stands.
    method
        The method's own name.
    options
        Resolved options that shape results.
    varied
        Which of ``keep``, ``look_ahead`` and ``method_seed`` the run chose: they stand in the
        name. What an arm's file fixes does not.
    elsewhere
        The engine, where it is not the run's own.
    """

    base: str
    method: str
    options: Mapping[str, Any]
    keep: float | None
    look_ahead: int | None
    method_seed: int
    varied: frozenset[str] = frozenset()
    elsewhere: str | None = None

    @property
    def name(self) -> str:
        """Display name, unique within a task, length and data seed."""
        return self._name("keep", "look_ahead", "method_seed")

    @property
    def pool(self) -> str:
        """The name without the method seed: repetitions of one arm share it."""
        return self._name("keep", "look_ahead")

    @property
    def series(self) -> str:
        """The name without keep rate and method seed: points of one curve share it."""
        return self._name("look_ahead")

    def _name(self, *shown: str) -> str:
        parts = {
            "keep": "" if self.keep is None else f"-k{self.keep * 100:g}",
            "look_ahead": f"-lah{self.look_ahead}",
            "method_seed": f"-m{self.method_seed}",
        }
        told = [text for axis, text in parts.items() if axis in shown and axis in self.varied]
        at = "" if self.elsewhere is None else f"@{self.elsewhere}"
        return self.base + "".join(told) + at
