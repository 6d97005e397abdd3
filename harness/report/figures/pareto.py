"""Quality against time to first token: which arms nothing else beats on both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.report import formats
from harness.report.figures.labels import name_points
from harness.report.figures.style import (
    LIGHT,
    DataTable,
    Figure,
    colours,
    drawing,
    new_canvas,
    to_svg,
    wrapped,
)
from harness.report.panels import Panel, panels
from harness.schema.receipts import REFERENCE_KERNEL
from harness.schema.rows import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from harness.report.source import Report

KEY = "pareto"
TITLE = "Quality against time to first token"
HEADERS = ("task", "arm", "median TTFT, s", "score", "without floor tasks", "on the front")


def draw(report: Report) -> Figure:
    """Draw one panel a task (or pooled group) and length."""
    found, note = panels(report.headline_rows, _usable)
    if not found:
        return Figure(KEY, TITLE, reason="no arm has both a score and a latency")
    columns = min(2, len(found))
    with drawing():
        canvas, axes = new_canvas(columns, -(-len(found) // columns), height=3.2)
        palette = colours([row.method for row in report.rows])
        for axis, panel in zip(axes, found, strict=False):
            _panel(axis, panel, palette, columns)
        for axis in axes[len(found) :]:
            axis.set_visible(False)
        handles = {
            label: handle
            for axis in axes
            for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
        }
        canvas.legend(handles.values(), handles.keys(), loc="outside lower left", ncols=5)
        canvas.draw_without_rendering()  # lays the panels out, which places of names depend on
        for axis, panel in zip(axes, found, strict=False):
            _name_front(axis, panel)
        svg = to_svg(canvas, KEY, f"{TITLE}, {len(found)} panels; the numbers follow as a table")
    slow = dict.fromkeys(row.arm for row in report.headline_rows if row.has_reference_kernel)
    if slow:
        note = f"Not shown, timed with a {REFERENCE_KERNEL}: {', '.join(slow)}. {note}"
    if any(row.without_floor for panel in found for row in panel.rows):
        note = f"Pooled scores hold floor tasks; the table has those without them. {note}"
    caption = (
        f"Up and to the left is better; the line joins the arms that no other arm beats on both. "
        f"Score with its 95 % interval; TTFT is the median of single requests (batch 1), "
        f"{report.setting}. {note}"
    )
    return Figure(KEY, TITLE, caption.strip(), svg, DataTable(HEADERS, _table(found)))


def front(rows: Sequence[Row]) -> list[Row]:
    """Rows that no other row beats: none is both as fast and better, or as good and faster."""
    ordered = sorted(rows, key=lambda row: (row.ttft_s.median or 0, -(row.score.value or 0)))
    best: list[Row] = []
    for row in ordered:
        if not best or (row.score.value or 0) > (best[-1].score.value or 0):
            best.append(row)
    return best


def _usable(row: Row) -> bool:
    timed = row.ttft_s.median is not None and not row.has_reference_kernel
    return timed and row.score.value is not None


def _panel(axis: Axes, panel: Panel, palette: dict[str, tuple[str, str]], columns: int) -> None:
    best = front(panel.rows)
    axis.step(
        [row.ttft_s.median or 0 for row in best],
        [row.score.value or 0 for row in best],
        where="post",
        color=LIGHT["muted"],
        lw=1,
        zorder=1,
    )
    for row in panel.rows:
        colour, marker = palette[row.method]
        x, y = row.ttft_s.median or 0.0, row.score.value or 0.0
        if row.score.bounds:
            axis.vlines(x, *row.score.bounds, color=colour, lw=1.2, alpha=0.7)
        known = axis.get_legend_handles_labels()[1]
        label = None if row.method in known else row.method
        axis.plot(x, y, marker=marker, color=colour, ms=8, mec=LIGHT["page"], ls="", label=label)
    axis.set(
        title=wrapped(panel.title, columns),
        ylim=(-0.03, 1.08),
        xlabel="median TTFT, s",
        ylabel="score",
    )
    axis.margins(x=0.15)
    axis.set_xlim(left=0)


def _name_front(axis: Axes, panel: Panel) -> None:
    points = [(row.ttft_s.median or 0, row.score.value or 0) for row in panel.rows]
    named = [(row.ttft_s.median or 0, row.score.value or 0, row.arm) for row in front(panel.rows)]
    name_points(axis, named[::-1], points)


def _table(found: Sequence[Panel]) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (
            panel.title,
            formats.arm_label(row),
            formats.number(row.ttft_s.median),
            formats.score(row.score),
            formats.DASH if row.without_floor is None else formats.score(row.without_floor.score),
            "yes" if row in front(panel.rows) else "no",
        )
        for panel in found
        for row in panel.rows
    )
