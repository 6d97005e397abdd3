"""Time to first token stacked by stage, against prompt length, with the break-even length."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import expm1
from typing import TYPE_CHECKING

from harness.report import formats
from harness.report.figures.style import LIGHT, DataTable, Figure, drawing, new_canvas, to_svg
from harness.schema.estimates import SpeedUp
from harness.schema.records import STAGES
from harness.schema.rows import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from harness.report.source import Report

KEY = "ttft-stages"
TITLE = "Time to first token by stage"
HEADERS = (
    "length",
    "task",
    "arm",
    *(f"{stage}, s" for stage in STAGES),
    "median TTFT, s",
    "requests",
    "ABBA blocks",
    "order effect",
    "lag-1",
)
MAX_BARS = 40

_COLOURS = dict(zip(STAGES, (LIGHT["s2"], LIGHT["s5"], LIGHT["s1"], LIGHT["s0"]), strict=True))
_HATCHES = dict(zip(STAGES, ("", "///", "", "..."), strict=True))
_NAMES = {
    "score": "score (speculator)",
    "select": "select",
    "prefill": "prefill (target)",
    "other": "other",
}


def draw(report: Report) -> Figure:
    """Draw one bar a length and arm; lengths are never pooled."""
    timed = [row for row in report.headline_rows if row.ttft_s.median is not None]
    if not timed:
        return Figure(KEY, TITLE, reason="no latency was measured: run with --latency-samples")
    timed.sort(key=lambda row: row.length or 0)  # stable: arms keep their order
    shown = timed[:MAX_BARS]
    with drawing():
        canvas, (axis,) = new_canvas(height=1.2 + 0.27 * (len(shown) + len(_places(shown)[1])))
        _bars(axis, shown)
        canvas.legend(loc="outside lower left", ncols=4)
        svg = to_svg(canvas, KEY, f"{TITLE}, {len(shown)} bars; the numbers follow as a table")
    sentences = [
        "Bars are mean seconds by stage, which add up; the figure beside each is the median. "
        "Single requests (batch 1), each with a cold, salted cache. " + report.setting_sentence,
        *break_even([row for row in timed if not row.has_reference_kernel]),
    ]
    if len(shown) < len(timed):
        sentences.append(f"The first {MAX_BARS} of {len(timed)} bars are drawn.")
    return Figure(KEY, TITLE, " ".join(sentences), svg, DataTable(HEADERS, _table(timed)))


def _bars(axis: Axes, rows: Sequence[Row]) -> None:
    places, headings = _places(rows)
    for number, (place, row) in enumerate(zip(places, rows, strict=True)):
        left = 0.0
        for stage in STAGES:
            width = row.stages_s.get(stage) or 0.0
            axis.barh(
                place,
                width,
                left=left,
                height=0.7,
                color=_COLOURS[stage],
                hatch=_HATCHES[stage],
                edgecolor=LIGHT["page"],
                linewidth=0.5,
                label=None if number else _NAMES[stage],
            )
            left += width
        axis.annotate(
            formats.seconds(row.ttft_s.median),
            (left, place),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
        )
    labels = [formats.timed_label(row) for row in rows]
    axis.set_yticks([*places, *headings], [*labels, *headings.values()], color=LIGHT["ink"])
    for tick in axis.get_yticklabels()[len(places) :]:
        tick.set_fontweight("bold")
    axis.set_ylim(places[-1] + 0.7, -0.7)
    axis.grid(axis="y", visible=False)
    axis.margins(x=0.12)
    axis.set_xlim(left=0)
    axis.set_xlabel("seconds")


def _places(rows: Sequence[Row]) -> tuple[list[int], dict[int, str]]:
    """Vertical places of the bars, and of a heading above each group of one length and task."""
    several = len({row.task for row in rows}) > 1
    places: list[int] = []
    headings: dict[int, str] = {}
    for row in rows:
        length = f"{row.length:,} tokens" if row.length else "own prompts"
        heading = f"{length} · {row.task}" if several else length
        if not headings or next(reversed(headings.values())) != heading:
            headings[len(places) + len(headings)] = heading
        places.append(len(places) + len(headings))
    return places, headings


def break_even(rows: Sequence[Row]) -> list[str]:
    """Say for each arm from which prompt length on it reaches the first token sooner than full.

    Between two measured lengths the gain is taken as linear in the length. With one length only
    there is nothing to interpolate, and the sentence says so.
    """
    full = {_key(row): row.ttft_s.median for row in rows if row.is_reference}
    gains: dict[str, dict[int, float]] = {}
    for row in rows:
        reference = full.get(_key(row))
        seconds = row.ttft_s.median
        if row.is_reference or row.length is None or seconds is None or reference is None:
            continue
        gains.setdefault(formats.arm_label(row), {})[row.length] = reference - seconds
    verdicts: dict[str, list[str]] = {}
    for arm, by_length in gains.items():
        verdicts.setdefault(_crossing(sorted(by_length.items())), []).append(arm)
    return [f"{', '.join(arms)}: {verdict}." for verdict, arms in verdicts.items()]


def _crossing(gains: list[tuple[int, float]]) -> str:
    lengths = ", ".join(f"{length:,}" for length, _ in gains)
    for (short, before), (long, after) in pairwise(gains):
        if before <= 0 < after:
            at = short - before * (long - short) / (after - before)
            return f"break-even near {round(at, -1):,.0f} tokens (measured at {lengths})"
    sooner = [gain > 0 for _, gain in gains]
    if all(sooner):
        verdict = f"sooner than full prefill at {lengths} tokens"
    elif not any(sooner):
        verdict = f"later than full prefill at {lengths} tokens"
    else:
        verdict = f"sooner at short prompts only (measured at {lengths})"
    return verdict if len(gains) > 1 else f"{verdict}; a break-even length needs two lengths"


def _key(row: Row) -> tuple[str | None, str, int | None, str, str]:
    return row.run, row.task, row.length, row.engine, row.dtype


def _table(rows: Sequence[Row]) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (
            formats.DASH if row.length is None else f"{row.length:,}",
            row.task,
            formats.timed_label(row),
            *(formats.number(row.stages_s.get(stage)) for stage in STAGES),
            formats.number(row.ttft_s.median),
            str(row.ttft_s.requests),
            *_checks(row.ttft_speedup),
        )
        for row in rows
    )


def _checks(speedup: SpeedUp | None) -> tuple[str, str, str]:
    """Blocks, order effect and lag-1 of a measurement, for readers who want to judge it."""
    if speedup is None:
        return formats.DASH, formats.DASH, formats.DASH
    return str(speedup.blocks), _percent(speedup.order_effect), formats.number(speedup.lag1, 2)


def _percent(log_effect: float | None) -> str:
    """How much later the first request of a block is, as a share of its time."""
    return formats.DASH if log_effect is None else f"{formats.signed(100 * expm1(log_effect), 1)} %"
