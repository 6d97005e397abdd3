"""Paired differences to full prefill, one line a task and arm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.report import formats
from harness.report.figures.style import (
    LIGHT,
    DataTable,
    Figure,
    colours,
    drawing,
    new_canvas,
    to_svg,
)
from harness.schema.rows import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from harness.report.source import Report

KEY = "forest"
TITLE = "Paired difference to full prefill"
HEADERS = (
    "task",
    "arm",
    "Δ",
    "95 % interval",
    "n",
    "p",
    "p, Holm",
    "gained : lost",
    "remarks",
)
MAX_LINES = 48


def draw(report: Report) -> Figure:
    """Draw every paired difference; pooled groups stand first, as diamonds."""
    rows = [
        row
        for row in report.rows
        if row.level != "seed" and row.delta is not None and row.delta.value is not None
    ]
    rows.sort(key=lambda row: not row.pooled)
    if not rows:
        return Figure(KEY, TITLE, reason="nothing is paired with full prefill in this run")
    shown = rows[:MAX_LINES]
    with drawing():
        canvas, (axis,) = new_canvas(height=1.0 + 0.23 * _height(shown))
        _lines(axis, shown, colours([row.method for row in report.rows]))
        svg = to_svg(canvas, KEY, f"{TITLE}, {len(shown)} lines; the numbers follow as a table")
    caption = (
        "Arm minus full prefill on the same examples, with 95 % intervals; left of zero is a loss. "
        f"Hollow marks have no interval (the table says why). {report.setting_sentence}"
    )
    if len(shown) < len(rows):
        caption += f" The first {MAX_LINES} of {len(rows)} lines are drawn."
    return Figure(KEY, TITLE, caption, svg, DataTable(HEADERS, _table(rows)))


def _height(rows: Sequence[Row]) -> int:
    return len(rows) + len({(row.task, row.length, row.run) for row in rows})


def _lines(axis: Axes, rows: Sequence[Row], palette: dict[str, tuple[str, str]]) -> None:
    axis.axvline(0, color=LIGHT["ink"], lw=1)
    labels: list[str] = []
    headings: list[int] = []
    for row in rows:
        delta, task = row.delta, formats.task_label(row)
        if delta is None or delta.value is None:  # draw() has left them out
            continue
        if not headings or labels[headings[-1]] != task:
            headings.append(len(labels))
            labels.append(task)
        place = len(labels)
        labels.append(formats.arm_label(row))
        colour, marker = palette[row.method]
        if delta.bounds:
            axis.hlines(place, *delta.bounds, color=colour, lw=2)
        axis.plot(
            delta.value,
            place,
            marker="D" if row.pooled else marker,
            ms=8 if row.pooled else 6,
            color=colour,
            mec=colour,
            mfc=colour if delta.bounds else LIGHT["page"],
            ls="",
        )
    axis.set_yticks(range(len(labels)), labels, color=LIGHT["ink"], fontsize=8.5)
    for place in headings:
        axis.get_yticklabels()[place].set_fontweight("bold")
    axis.set_ylim(len(labels) - 0.4, -0.7)
    axis.grid(axis="y", visible=False)
    axis.margins(x=0.06)
    axis.set_xlabel("Δ score (arm − full prefill)")


def _table(rows: Sequence[Row]) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (
            formats.task_label(row),
            formats.arm_label(row),
            formats.delta(row.delta),
            formats.interval(row.delta, with_sign=True) or formats.DASH,
            str(row.n),
            formats.number(None if row.delta is None else row.delta.p),
            formats.number(None if row.delta is None else row.delta.p_holm),
            _changed(row),
            "; ".join(row.remarks),
        )
        for row in rows
    )


def _changed(row: Row) -> str:
    counts = None if row.delta is None else row.delta.mcnemar
    return formats.DASH if counts is None else f"{counts.gained} : {counts.lost}"
