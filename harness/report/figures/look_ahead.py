"""What look-ahead buys and costs: score and time to first token against its depth."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.report import formats
from harness.report.figures.style import (
    DASHES,
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

KEY = "look-ahead"
TITLE = "Look-ahead depth"
HEADERS = ("task", "curve", "look-ahead", "score", "95 % interval", "median TTFT, s")
MAX_CURVES = 6

Curves = dict[str, list[Row]]


def draw(report: Report) -> Figure:
    """Draw the score, and the latency where it was measured, against the look-ahead depth."""
    curves = _curves(report)
    if not curves:
        return Figure(KEY, TITLE, reason="needs two look-ahead depths: --look-ahead 1,8")
    shown = dict(list(curves.items())[:MAX_CURVES])
    timed = any(row.ttft_s.median is not None for rows in shown.values() for row in rows)
    with drawing():
        canvas, axes = new_canvas(2 if timed else 1, height=3.2)
        palette = colours(list(shown))
        for number, (name, rows) in enumerate(shown.items()):
            _score(axes[0], name, rows, palette[name], DASHES[number % len(DASHES)])
            if timed:
                _latency(axes[1], rows, palette[name], DASHES[number % len(DASHES)])
        axes[0].set(ylim=(-0.03, 1.05), xlabel="look-ahead (query rows)", title="score")
        if timed:
            axes[1].set(xlabel="look-ahead (query rows)", title="median TTFT, s", ylim=(0, None))
        canvas.legend(loc="outside lower left", ncols=2)
        svg = to_svg(canvas, KEY, f"{TITLE}, {len(shown)} curves; the numbers follow as a table")
    caption = (
        "Look-ahead N uses the last prompt token and N − 1 tokens that the speculator decodes; "
        f"1 means none. {report.setting_sentence}"
    )
    if len(shown) < len(curves):
        caption += f" The first {MAX_CURVES} of {len(curves)} curves are drawn."
    return Figure(KEY, TITLE, caption, svg, DataTable(HEADERS, _table(curves)))


def _curves(report: Report) -> Curves:
    found: Curves = {}
    engines = {row.engine for row in report.headline_rows}
    for row in report.headline_rows:
        if row.look_ahead is not None and row.score.value is not None:
            rate = "" if row.keep_requested is None else f" at keep {row.keep_requested:g}"
            engine = row.engine if len(engines) > 1 else ""
            name = f"{formats.task_label(row)} · {row.base}{rate} {engine}".rstrip()
            found.setdefault(name if row.run is None else f"{name} [{row.run}]", []).append(row)
    for rows in found.values():
        rows.sort(key=lambda row: row.look_ahead or 0)
    return {name: rows for name, rows in found.items() if len({r.look_ahead for r in rows}) > 1}


def _score(axis: Axes, name: str, rows: list[Row], look: tuple[str, str], dashes: str) -> None:
    depths = [row.look_ahead or 0 for row in rows]
    colour, marker = look
    axis.plot(
        depths,
        [row.score.value or 0 for row in rows],
        marker=marker,
        color=colour,
        ls=dashes,
        label=name,
        mec=LIGHT["page"],
    )
    for depth, row in zip(depths, rows, strict=True):
        if row.score.bounds:
            axis.vlines(depth, *row.score.bounds, color=colour, lw=1.2, alpha=0.7)
    axis.set_xticks(sorted({*axis.get_xticks(), *depths} & set(depths)))


def _latency(axis: Axes, rows: list[Row], look: tuple[str, str], dashes: str) -> None:
    timed = [row for row in rows if row.ttft_s.median is not None]
    depths = [row.look_ahead or 0 for row in timed]
    colour, marker = look
    seconds = [row.ttft_s.median or 0 for row in timed]
    axis.plot(depths, seconds, marker=marker, color=colour, ls=dashes, mec=LIGHT["page"])
    axis.set_xticks(depths)


def _table(curves: Curves) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (
            formats.task_label(row),
            name,
            str(row.look_ahead),
            formats.score(row.score),
            formats.interval(row.score) or formats.DASH,
            formats.number(row.ttft_s.median),
        )
        for name, rows in curves.items()
        for row in rows
    )
