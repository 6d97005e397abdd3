"""Quality against achieved keep rate, each point with its 95 % interval."""

from __future__ import annotations

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
    wrapped,
)
from harness.report.panels import Panel, panels
from harness.schema.rows import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from harness.report.source import Report

KEY = "quality-keep"
TITLE = "Quality against achieved keep rate"
HEADERS = ("task", "arm", "requested → achieved keep", "score", "95 % interval", "n")

DODGE = 0.9  # percent points


def draw(report: Report) -> Figure:
    """Draw one panel a task and length; arms of different budget kinds never share one."""
    found, note = panels(report.rows, _usable, by_budget=True)
    if not found:
        return Figure(KEY, TITLE, reason="no arm with a keep rate has a score yet")
    columns = min(3, len(found))
    with drawing():
        canvas, axes = new_canvas(
            columns, -(-len(found) // columns), height=3.1 if columns == 1 else 2.6
        )
        palette = colours([row.series for row in report.rows if not row.is_reference])
        for axis, panel in zip(axes, found, strict=False):
            _panel(axis, panel, palette, columns)
        for axis in axes[len(found) :]:
            axis.set_visible(False)
        handles = {
            label: handle
            for axis in axes
            for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
        }
        canvas.legend(
            handles.values(), handles.keys(), loc="outside lower left", ncols=min(3, len(handles))
        )
        svg = to_svg(canvas, KEY, f"{TITLE}, {len(found)} panels; the numbers follow as a table")
    caption = (
        f"Score by the share of the prompt that was really kept, {report.setting}. Bars are 95 % "
        f"intervals; the grey band is full prefill. {note}"
    )
    return Figure(KEY, TITLE, caption.strip(), svg, DataTable(HEADERS, _table(found)))


def _usable(row: Row) -> bool:
    return row.score.value is not None and (row.is_reference or row.keep_achieved is not None)


def _panel(axis: Axes, panel: Panel, palette: dict[str, tuple[str, str]], columns: int) -> None:
    for row in panel.rows:
        if row.is_reference and row.score.value is not None:
            colour, _ = palette["full"]
            axis.axhline(row.score.value, color=colour, lw=1.4, ls="--", label="full prefill")
            if row.score.bounds:
                axis.axhspan(*row.score.bounds, color=colour, alpha=0.14, lw=0)
    curves: dict[str, list[Row]] = {}
    for row in panel.rows:
        if not row.is_reference:
            curves.setdefault(row.series, []).append(row)
    for number, (name, rows) in enumerate(curves.items()):
        rows.sort(key=lambda row: row.keep_achieved or 0)
        colour, marker = palette[name]
        # Curves share their keep rates: a small step aside keeps intervals apart.
        aside = DODGE * (number - (len(curves) - 1) / 2)
        keeps = [100 * (row.keep_achieved or 0) + aside for row in rows]
        scores = [row.score.value or 0 for row in rows]
        axis.plot(keeps, scores, marker=marker, color=colour, label=name, mec=LIGHT["page"])
        for keep, row in zip(keeps, rows, strict=True):
            if row.score.bounds:
                axis.vlines(keep, *row.score.bounds, color=colour, lw=1.4, alpha=0.8)
    axis.set(
        title=wrapped(panel.title, columns),
        xlim=(0, 103),
        ylim=(-0.03, 1.05),
        xlabel="achieved keep, %",
    )


def _table(found: list[Panel]) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (
            panel.title,
            row.arm,
            formats.keep(row),
            formats.score(row.score),
            formats.interval(row.score) or formats.DASH,
            str(row.n),
        )
        for panel in found
        for row in panel.rows
    )
