"""The terminal table of ``harness run``: pooled rows first, every figure with its interval.

Three layouts, so that no figure is ever cut: one line a row where the terminal is wide, two lines
where it is not, and a small block a row below 112 columns. Text is wrapped in ``rich.text.Text``
everywhere: names and reasons come from files and models and are never read as markup.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from harness.report import formats
from harness.report.rows import TOO_FEW, Estimate, Row, remarks, rows_of, silent_notice

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

WIDE = 150
MEDIUM = 112

LEGEND = "[ ] are 95 % intervals; Δ and speed-up are paired with full prefill."

_HEADERS = ("task and arm", "n", "keep", "score", "Δ to full", "TTFT", "speed-up", "status")
_RIGHT = frozenset({"n", "TTFT"})
_FOLDED = frozenset({"task and arm", "status"})


def render_table(summary: Mapping[str, Any], console: Console) -> None:
    """Print the summary of a run.

    Parameters
    ----------
    summary
        JSON object of :func:`harness.analysis.summary.summarize`, as ``harness run --json`` prints
        it.
    console
        Where to print; its width chooses the layout.
    """
    rows = rows_of(summary)
    notice = silent_notice(rows)
    if notice is not None:
        console.print(_text(f"! {notice}", "bold yellow"))
    if not rows:
        console.print(_text("no finished examples yet"))
        return
    marks = {text: number for number, text in enumerate(remarks(rows), start=1)}
    if console.width >= MEDIUM:
        console.print(_table(rows, marks, "\n" if console.width < WIDE else " "))
    else:
        _print_blocks(rows, marks, console)
    for line in category_lines(summary):
        console.print(_text(line))
    console.print(_text(LEGEND, "dim"))
    for remark, number in marks.items():
        console.print(_text(f"({number}) {remark}", "dim"))


def category_lines(summary: Mapping[str, Any]) -> list[str]:
    """One line a category and length with each arm's mean, where a group has several categories.

    An average over a benchmark never stands without these parts.
    """
    means = summary.get("categories", [])
    spread: dict[str, set[str]] = {}
    for mean in means:
        spread.setdefault(mean["group"], set()).add(mean["category"])
    lines = []
    for (group, category, length), block in groupby(
        means_in_order(means), key=lambda m: (m["group"], m["category"], m["length"])
    ):
        if len(spread[group]) < 2:
            continue
        members = list(block)
        arms = [f"{m['arm']} {_mean_and_delta(m)}" for m in members]
        size = "" if length is None else f" @ {length:,}"
        floor = ", floor" if members[0]["floor"] else ""
        tasks, parts = len(members[0]["tasks"]), members[0].get("categories")
        name = category.replace("_", " ")
        unit = "task" if tasks == 1 else "tasks"
        of = f"{tasks} {unit}" if parts is None else f"mean of {', '.join(parts)}".replace("_", " ")
        lines.append(f"{group} {name}{size} ({of}{floor}): {'; '.join(arms)}")
    return ["Mean by category:", *lines] if lines else []


def means_in_order(means: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Means with the arms of one category and length side by side."""
    order: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for mean in means:
        key = (mean["group"], mean["category"], mean["length"])
        order.setdefault(key, []).append(mean)
    return [mean for members in order.values() for mean in members]


def _mean_and_delta(mean: Mapping[str, Any]) -> str:
    delta = mean["delta"]
    return f"{mean['score']:.3f}" + ("" if delta is None else f" (Δ {delta:+.3f})")


def _table(rows: Sequence[Row], marks: Mapping[str, int], joint: str) -> Table:
    """Build the table; ``joint`` stands between a figure and its interval."""
    from rich import box
    from rich.table import Table

    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
        header_style="dim",
    )
    for name in _HEADERS:
        table.add_column(
            name,
            justify="right" if name in _RIGHT else "left",
            no_wrap=name not in _FOLDED,
            overflow="fold",
        )
    for label, block in groupby(rows, key=formats.task_label):
        members = list(block)
        table.add_row(_text(label + _verdict(members), "bold"))
        for row in members:
            arm, *figures = _cells(row, marks, joint)
            table.add_row(*map(_text, (f"  {arm}", *figures)))
        table.add_section()
    return table


def _print_blocks(rows: Sequence[Row], marks: Mapping[str, int], console: Console) -> None:
    for label, block in groupby(rows, key=formats.task_label):
        members = list(block)
        console.print(_text(label + _verdict(members), "bold"))
        for row in members:
            arm, n, keep, score, delta, ttft, speedup, status = _cells(row, marks, " ")
            parts = [f"n {n} ({status})", f"keep {keep}", f"score {score}", f"TTFT {ttft}"]
            if row.delta is not None:
                parts.insert(3, f"Δ to full {delta}")
            if row.speedup is not None:
                parts.append(f"speed-up {speedup}")
            console.print(_text(f"  {arm}"))
            for line in _filled(parts, console.width - 4):
                console.print(_text(f"    {line}"))


def _filled(parts: Sequence[str], width: int) -> list[str]:
    """Join parts into lines of at most ``width`` columns, never breaking inside a part."""
    lines = [parts[0]]
    for part in parts[1:]:
        joined = f"{lines[-1]} · {part}"
        if len(joined) <= width:
            lines[-1] = joined
        else:
            lines.append(part)
    return lines


def _cells(row: Row, marks: Mapping[str, int], joint: str) -> list[str]:
    numbers = "".join(f" ({number})" for number in sorted(marks[text] for text in row.remarks))
    return [
        formats.arm_label(row) + numbers,
        str(row.n),
        formats.keep(row).replace(" ", joint, 1),
        _with_interval(formats.score(row.score), row.score, joint),
        _with_interval(formats.delta(row.delta), row.delta, joint, with_sign=True),
        formats.seconds(row.ttft_s),
        _with_interval(formats.ratio(row.speedup), row.speedup, joint, digits=2),
        formats.statuses(row.status),
    ]


def _with_interval(
    figure: str, estimate: Estimate | None, joint: str, *, with_sign: bool = False, digits: int = 3
) -> str:
    interval = formats.interval(estimate, with_sign=with_sign, digits=digits)
    return f"{figure}{joint}{interval}" if interval else figure


def _verdict(rows: Sequence[Row]) -> str:
    """Say beside a heading that none of its comparisons, or not every one, decides anything."""
    compared = [row for row in rows if row.delta is not None and row.delta.value is not None]
    undecided = [row for row in compared if row.note and row.note.startswith(TOO_FEW)]
    if not undecided:
        return ""
    if len(undecided) == len(compared):
        return f" · {TOO_FEW}"
    return f" · {TOO_FEW} in {len(undecided)} of {len(compared)} arms"


def _text(content: str, style: str = "") -> Text:
    from rich.text import Text

    return Text(formats.visible(content), style=style)
