"""The sample browser: prompts with what was kept, both answers side by side, by outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from harness.report.pages.text_map import Piece, map_text
from harness.report.source import Report, RunView
from harness.schema.records import CellRecord, QualityRecord

if TYPE_CHECKING:
    import pandas as pd

MAX_SAMPLES = 120
MAX_PROMPT_CHARS = 16_000
"""A longer prompt shows the ends of its dropped stretches only."""
STRETCH_ENDS = 240
LEAST_ENDS = 24
MAX_ANSWER_CHARS = 2_000
RIGHT = 0.5
"""A score from here on counts as right when samples are sorted; tables never use it."""

OUTCOMES = {
    "lost": "full right, arm wrong",
    "gained": "full wrong, arm right",
    "both-right": "both right",
    "both-wrong": "both wrong",
    "right": "right (no full prefill beside it)",
    "wrong": "wrong (no full prefill beside it)",
    "unscored": "not scored",
}
"""Key → words, in the order in which samples are chosen."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One model answer, shortened for the page."""

    arm: str
    text: str | None
    score: float | None
    cut: int
    reason: str | None


@dataclass(frozen=True, slots=True)
class Sample:
    """One example under one arm, beside full prefill."""

    example_id: str
    task: str
    arm: str
    run: str | None
    outcome: str
    references: tuple[str, ...]
    answer: Answer
    full: Answer | None
    pieces: tuple[Piece, ...]
    unmapped: str | None
    status: str
    keep_achieved: float | None
    evidence_kept: float | None
    tokens: int

    @property
    def has_shades(self) -> bool:
        """Whether scores are known."""
        return any(piece.shade is not None for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class Browser:
    """The samples shown, and of how many they were chosen."""

    samples: tuple[Sample, ...]
    total: int

    @property
    def statement(self) -> str:
        """Say what is shown of what there is."""
        if len(self.samples) == self.total:
            return f"All {self.total:,} examples of the pruning arms."
        return (
            f"{len(self.samples):,} of {self.total:,} examples of the pruning arms: in turn from "
            "every outcome, task and arm, answers that were lost first. The tables are computed "
            "from all of them."
        )


def browse(report: Report) -> Browser:
    """Choose and read the samples; only the chosen ones are read whole."""
    total, samples = 0, []
    share = max(1, MAX_SAMPLES // len(report.runs))
    for run in report.runs:
        frame = _outcomes(run)
        total += len(frame)
        chosen = _choose(frame, share)
        cells = {cell.cell_id: cell for cell in run.cells}
        for cell_id, example_id, outcome in chosen:
            samples.append(_sample(run, cells[cell_id], example_id, outcome))
    return Browser(tuple(samples), total)


def _outcomes(run: RunView) -> pd.DataFrame:
    """Every record of a pruning arm with its outcome against full prefill."""
    import numpy as np

    reference = {c.cell_id: c.reference_cell_id for c in run.cells if c.method != "full"}
    scores = run.quality[["cell_id", "example_id", "score"]]
    arms = scores[scores["cell_id"].isin(reference)]
    arms = arms.assign(reference=arms["cell_id"].map(reference))
    joined = arms.merge(
        scores,
        how="left",
        left_on=["reference", "example_id"],
        right_on=["cell_id", "example_id"],
        suffixes=("", "_full"),
    )
    mine, theirs = joined["score"].to_numpy(float), joined["score_full"].to_numpy(float)
    good, full_good = mine >= RIGHT, theirs >= RIGHT
    alone = np.isnan(theirs)
    joined["outcome"] = np.select(
        [np.isnan(mine), alone & good, alone, full_good & ~good, ~full_good & good, good],
        ["unscored", "right", "wrong", "lost", "gained", "both-right"],
        "both-wrong",
    )
    return joined[["cell_id", "example_id", "outcome"]]


def _choose(frame: pd.DataFrame, limit: int) -> list[tuple[str, str, str]]:
    """Take samples in turn from every outcome and cell, lost answers first."""
    import numpy as np

    priority = {name: rank for rank, name in enumerate(OUTCOMES)}
    turn = frame.groupby(["cell_id", "outcome"], sort=False).cumcount()
    ordered = frame.assign(turn=turn, priority=frame["outcome"].map(priority))
    ordered = ordered.sort_values(["priority", "turn"], kind="stable")
    place = ordered.groupby("priority", sort=False).cumcount()
    # Lost answers are why the browser is opened: three for one of every other outcome.
    ordered["place"] = place // np.where(ordered["priority"] == 0, 3, 1)
    ordered = ordered.sort_values(["place", "priority"], kind="stable").head(limit)
    ordered = ordered.sort_values(["priority", "place"], kind="stable")
    return [
        (str(cell), str(example), str(outcome))
        for cell, example, outcome in zip(
            ordered["cell_id"], ordered["example_id"], ordered["outcome"], strict=True
        )
    ]


def _sample(run: RunView, cell: CellRecord, example_id: str, outcome: str) -> Sample:
    example = run.store.example(example_id)
    record = run.store.quality_of(cell.cell_id, example_id)
    if example is None or record is None:  # the frames came from the same store
        raise KeyError(example_id)
    reference = None
    if cell.reference_cell_id is not None:
        reference = run.store.quality_of(cell.reference_cell_id, example_id)
    mapped = map_text(example, record.receipt)
    return Sample(
        example_id=example_id,
        task=cell.task,
        arm=cell.arm,
        run=run.label,
        outcome=outcome,
        references=tuple(_cut(text)[0] for text in example.references[:10]),
        answer=_answer(cell.arm, record),
        full=None if reference is None else _answer("full", reference),
        pieces=tuple(shorten(mapped.pieces)),
        unmapped=mapped.reason,
        status=str(record.receipt.status),
        keep_achieved=record.receipt.keep_achieved,
        evidence_kept=record.evidence_kept,
        tokens=example.token_count,
    )


def _answer(arm: str, record: QualityRecord) -> Answer:
    text, cut = (None, 0) if record.text is None else _cut(record.text)
    return Answer(arm, text, record.score, cut, record.reason)


def _cut(text: str) -> tuple[str, int]:
    return text[:MAX_ANSWER_CHARS], max(0, len(text) - MAX_ANSWER_CHARS)


def shorten(pieces: Sequence[Piece], limit: int = MAX_PROMPT_CHARS) -> Sequence[Piece]:
    """Shorten a prompt beyond ``limit`` characters so that the page still opens.

    First the dropped stretches lose their middles, the more so the more of them there are. Where
    what was kept is itself too long, the end is left out, except for the evidence in it.
    """
    if sum(len(piece.text) for piece in pieces) <= limit:
        return pieces
    stretches = [
        (lasts, list(members))
        for lasts, members in groupby(pieces, key=lambda piece: piece.kept or piece.evidence)
    ]
    lasting = sum(len(p.text) for lasts, members in stretches if lasts for p in members)
    dropped = sum(not lasts for lasts, _ in stretches)
    spare = max(0, limit - lasting) // (2 * max(1, dropped))
    ends = min(STRETCH_ENDS, max(LEAST_ENDS, spare))
    found: list[Piece] = []
    for lasts, members in stretches:
        found += members if lasts else _ends(members, ends)
    return _without_tail(found, 2 * limit)


def _ends(stretch: Sequence[Piece], ends: int) -> Sequence[Piece]:
    """Keep ``ends`` characters at both ends of a dropped stretch."""
    text = "".join(piece.text for piece in stretch)
    elided = len(text) - 2 * ends
    if elided <= ends:
        return stretch
    head = Piece(text[:ends], kept=False, evidence=False, elided=elided)
    return head, Piece(text[-ends:], kept=False, evidence=False)


def _without_tail(pieces: Sequence[Piece], limit: int) -> Sequence[Piece]:
    """Leave out what comes after ``limit`` characters, evidence excepted; count what goes."""
    found: list[Piece] = []
    used = 0
    for piece in pieces:
        used += len(piece.text)
        if used <= limit or piece.evidence:
            found.append(piece)
        elif found:
            gone = len(piece.text) + piece.elided
            found[-1] = replace(found[-1], elided=found[-1].elided + gone)
        else:  # one piece longer than everything allowed
            found.append(replace(piece, text=piece.text[:limit], elided=used - limit))
    return found
