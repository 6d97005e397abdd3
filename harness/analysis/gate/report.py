"""The gate itself: a run, a baseline, and what comes of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from harness.analysis.floor import FLOOR_MEANS, is_floor
from harness.analysis.gate.baseline import Baseline, Cell
from harness.analysis.gate.margins import default_margin
from harness.analysis.gate.pairing import PairedCell, pair_cells
from harness.analysis.gate.quality import judge_quality
from harness.analysis.gate.ttft import judge_ttft
from harness.analysis.gate.verdicts import EXIT_CODES, Judgement, Verdict, overall
from harness.errors import ConfigError, NotComparableError

TTFT_MARGIN = 0.1
"""Default tolerated slow-down relative to full prefill."""


@dataclass(frozen=True)
class GateOptions:
    """How strict the gate is.

    Attributes
    ----------
    margin
        Tolerated loss for every cell; None takes the margin recorded in the baseline.
    ttft_margin
        Tolerated slow-down relative to full prefill.
    ttft
        Whether TTFT is gated.
    any_machine
        Compare scores across machine classes; TTFT is left out then.
    """

    margin: float | None = None
    ttft_margin: float = TTFT_MARGIN
    ttft: bool = True
    any_machine: bool = False

    def __post_init__(self) -> None:
        if self.margin is not None and not 0 < self.margin < 1:
            raise ConfigError(f"--margin {self.margin:g}: give a loss between 0 and 1, as 0.05")
        if not 0 < self.ttft_margin < math.inf:
            raise ConfigError(f"--ttft-margin {self.ttft_margin:g}: give a share above 0, as 0.1")


@dataclass(frozen=True)
class GateReport:
    """What the gate found; ``notes`` are differences that a reader should know of."""

    run: str
    baseline: str
    judgements: tuple[Judgement, ...]
    macro: dict[str, float]
    notes: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        """The overall verdict."""
        return overall(self.judgements)

    @property
    def exit_code(self) -> int:
        """Exit code of the overall verdict (DESIGN.md, rule 9)."""
        return int(EXIT_CODES[self.verdict])

    def to_json(self) -> dict[str, Any]:
        """Return the object ``harness gate --json`` prints; every number is finite or None."""
        return {
            "run": self.run,
            "baseline": self.baseline,
            "verdict": str(self.verdict),
            "exit_code": self.exit_code,
            "macro_change": self.macro,
            "cells": [_plain(j) for j in self.judgements],
            "notes": list(self.notes),
        }


def _plain(judgement: Judgement) -> dict[str, Any]:
    raw = asdict(judgement)
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in raw.items()}


def run_gate(
    candidate: Baseline, baseline: Baseline, options: GateOptions | None = None
) -> GateReport:
    """Compare a run (:func:`harness.analysis.gate.collect.collect`) with a baseline.

    Raises
    ------
    NotComparableError
        The two were measured on different classes of machine.
    """
    options = options or GateOptions()
    other_machine = baseline.machine_class != candidate.machine_class
    if other_machine and not options.any_machine:
        raise NotComparableError(
            f"the run was measured on {candidate.machine_class}, the baseline on "
            f"{baseline.machine_class}: use the baseline of this class (results/gate/<class>/), "
            "or compare scores alone with --any-machine"
        )
    judgements, pairs = _quality(candidate, baseline, options)
    ttft = []
    if options.ttft and not other_machine:
        ttft = judge_ttft(baseline, candidate, options.ttft_margin)
    return GateReport(
        candidate.run,
        baseline.run,
        (*judgements, *ttft),
        _macro(pairs),
        tuple(_notes(candidate, baseline)),
    )


def _quality(
    candidate: Baseline, baseline: Baseline, options: GateOptions
) -> tuple[list[Judgement], list[PairedCell]]:
    """Judge scores, in the baseline's order; arms that only the run has come last."""
    new_by_key, floors = candidate.by_key, _floors(baseline)
    slots: list[Judgement | None] = []
    pairs: list[tuple[PairedCell, float]] = []
    for old in baseline.cells:
        new = new_by_key.get(old.key)
        paired = "the run lacks this arm" if new is None else pair_cells(old, new)
        if isinstance(paired, str):
            slots.append(_unjudged(old, Verdict.NOT_COMPARABLE, paired))
        elif (old.task, old.length) in floors:
            detail = f"{FLOOR_MEANS} in the baseline: the model cannot do it"
            slots.append(_unjudged(old, Verdict.FLOOR, detail))
        else:
            slots.append(None)
            pairs.append((paired, options.margin or old.margin or default_margin(old)[0]))
    judged = iter(judge_quality(pairs))
    found = [slot if slot is not None else next(judged) for slot in slots]
    found += _without_baseline(candidate, baseline)
    return found, [pair for pair, _ in pairs]


def _without_baseline(candidate: Baseline, baseline: Baseline) -> list[Judgement]:
    """Arms that only the run has: new beside others that are compared, else not comparable.

    A gate that compared no pruning arm (all were renamed, or their tasks left the baseline) has
    not looked at what it is there for; full prefill alone must not turn it green.
    """
    known = baseline.by_key
    added = [cell for cell in candidate.cells if cell.key not in known]
    pruning = [cell for cell in candidate.cells if not cell.reference]
    unguarded = pruning or list(candidate.cells)
    if any(cell.key in known for cell in unguarded):
        verdict, detail = Verdict.NEW, "not in the baseline; harness gate update adds it"
    else:
        verdict = Verdict.NOT_COMPARABLE
        detail = "no pruning arm of the run is in the baseline; harness gate update adds it"
    return [
        _unjudged(cell, Verdict.NEW if cell.reference and pruning else verdict, detail)
        for cell in added
    ]


def _unjudged(cell: Cell, verdict: Verdict, detail: str) -> Judgement:
    length = None if cell.length is None else str(cell.length)
    return Judgement("quality", cell.task, length, cell.arm, verdict, detail, n=len(cell.examples))


def _floors(baseline: Baseline) -> set[tuple[str, int | None]]:
    """Tasks that full prefill cannot do, by the baseline: a run that broke full is no floor."""
    return {
        (cell.task, cell.length)
        for cell in baseline.cells
        if cell.reference
        and is_floor(
            np.array([math.nan if e.score is None else e.score for e in cell.examples]),
            [e.cluster for e in cell.examples],
            cell.metric,
        )
    }


def _macro(pairs: Sequence[PairedCell]) -> dict[str, float]:
    """Mean over tasks of the mean change, by arm: shown, never decides."""
    by_arm: dict[str, list[float]] = {}
    for pair in pairs:
        by_arm.setdefault(pair.candidate.arm, []).append(float(pair.differences.mean()))
    return {arm: float(np.mean(changes)) for arm, changes in by_arm.items()}


def _notes(candidate: Baseline, baseline: Baseline) -> list[str]:
    notes = []
    new_by_key = candidate.by_key
    for old in baseline.cells:
        new = new_by_key.get(old.key)
        if new is None:
            continue
        changed = sorted(
            name
            for name in {*old.options, *new.options}
            if old.options.get(name) != new.options.get(name)
        )
        if changed:
            parts = (f"{n}: {old.options.get(n)} → {new.options.get(n)}" for n in changed)
            notes.append(f"{old.label} · {old.arm} runs with other options ({', '.join(parts)})")
    old_digests, new_digests = baseline.models.get("digests"), candidate.models.get("digests")
    if old_digests and new_digests and old_digests != new_digests:
        notes.append("the models' digests differ from the baseline's")
    return notes
