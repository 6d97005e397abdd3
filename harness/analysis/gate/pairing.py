"""Which examples of a run stand against which of a baseline; what cannot be compared, and why."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.analysis.gate.baseline import Cell, Example
from harness.analysis.stats.jackknife import Floats

_SAME = ("metric", "engine", "dtype", "target")
"""What must agree for scores of the same example to be compared at all."""


@dataclass(frozen=True)
class PairedCell:
    """The same arm, task and length in both, example by example.

    Attributes
    ----------
    differences
        Candidate − baseline, shape (n,).
    identical
        Every output digest and every score is equal.
    """

    candidate: Cell
    differences: Floats
    clusters: tuple[str, ...]
    identical: bool


def pair_cells(baseline: Cell, candidate: Cell) -> PairedCell | str:
    """Pair two cells by the examples' content, or say in one clause why they cannot be.

    Missing and NaN scores are never dropped: they make the cells not comparable.
    """
    for name in _SAME:
        old, new = getattr(baseline, name), getattr(candidate, name)
        if old != new:
            return f"{name} is {new}, the baseline's is {old}"
    if candidate.stopped is not None:
        return f"the run did not finish it ({candidate.stopped})"
    old_by, new_by = _by_content(baseline.examples), _by_content(candidate.examples)
    fault = (
        _unscored(baseline.examples, "the baseline's")
        or _unmatched(old_by, new_by)
        or _unscored(candidate.examples, "the run's")
    )
    if fault:
        return fault
    if not old_by:
        return "the baseline holds no examples"
    pairs = [(old_by[key], new_by[key]) for key in sorted(old_by)]
    return PairedCell(
        candidate,
        np.array([_score(new) - _score(old) for old, new in pairs]),
        tuple(new.cluster for _, new in pairs),
        all(_same(old, new) for old, new in pairs),
    )


def _same(old: Example, new: Example) -> bool:
    # Equal outputs with unequal scores mean that the scoring changed: that is to be judged.
    return old.output is not None and old.output == new.output and old.score == new.score


def _by_content(examples: Sequence[Example]) -> dict[tuple[str, int], Example]:
    """Key examples by content; equal contents are numbered, in the order of their ids."""
    seen: Counter[str] = Counter()
    found = {}
    for example in sorted(examples, key=lambda e: e.id):
        found[example.content, seen[example.content]] = example
        seen[example.content] += 1
    return found


def _unmatched(
    old: dict[tuple[str, int], Example], new: dict[tuple[str, int], Example]
) -> str | None:
    missing = [old[key] for key in old if key not in new]
    added = [new[key] for key in new if key not in old]
    if missing:
        more = f", and {len(added)} others are there" if added else ""
        return (
            f"{len(missing)} of the baseline's {len(old)} examples are missing in the run, "
            f"first {missing[0].id}{more}"
        )
    if added:
        return f"the run has {len(added)} examples that the baseline lacks, first {added[0].id}"
    return None


def _unscored(examples: Sequence[Example], whose: str) -> str | None:
    bad = [e for e in examples if e.score is None or not math.isfinite(e.score)]
    if not bad:
        return None
    more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
    kind = "missing" if bad[0].score is None else "not a number"
    return f"{whose} score of example {bad[0].id} is {kind}{more}"


def _score(example: Example) -> float:
    if example.score is None:
        raise AssertionError("unscored examples are refused before")
    return example.score
