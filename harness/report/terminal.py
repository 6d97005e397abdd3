"""The terminal table of ``harness run``: pooled rows first, every figure with its interval.

Three layouts, so that no figure is ever cut: one line a row where the terminal is wide, two lines
where it is not, and a small block a row below 112 columns. Text is wrapped in ``rich.text.Text``
everywhere: names and reasons come from files and models and are never read as markup.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from harness.analysis.summary.notes import TOO_FEW, silent_notice
from harness.report import formats
from harness.report.pages.times import time_caption, time_rows
from harness.report.verdicts import rival_lines, session_note, verdict_lines
from harness.schema.estimates import Interval
from harness.schema.rows import CategoryMean, Row, RunSummary, Without

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


def render_table(summary: RunSummary, console: Console) -> None:
    """Print the summary of a run; the console's width chooses the layout."""
    rows = summary.arms
    notice = silent_notice(rows)
    if notice is not None:
        console.print(_text(f"! {notice}", "bold yellow"))
    if not rows:
        console.print(_text("no finished examples yet"))
        return
    marks = formats.numbered(rows)
    if console.width >= MEDIUM:
        console.print(_table(rows, marks, "\n" if console.width < WIDE else " "))
    else:
        _print_blocks(rows, marks, console)
    times = time_rows(rows)
    if times:
        _print_times(times, rows, console)
    for line in category_lines(summary.categories):
        console.print(_text(line))
    for line in (*verdict_lines(rows), *rival_lines(summary.rival_comparisons)):
        console.print(_text(line))
    console.print(_text(LEGEND, "dim"))
    note = session_note(rows)
    if note is not None:
        console.print(_text(note, "dim"))
    for remark, number in marks.items():
        console.print(_text(f"({number}) {remark}", "dim"))


def _print_times(times: Sequence[tuple[str, ...]], rows: Sequence[Row], console: Console) -> None:
    """Print what is not in the table above: per token and end to end."""
    console.print(_text("Time of a request", "bold"))
    for task, block in groupby(times, key=lambda line: line[0]):
        console.print(_text(f"  {task}"))
        for _, arm, _, _, token, token_ratio, whole, whole_ratio in block:
            parts = (
                f"    {arm}: per token {token} {token_ratio}",
                f"end to end {whole} {whole_ratio}",
            )
            for line in _filled(parts, console.width - 4):
                console.print(_text(line))
    console.print(_text(time_caption(rows), "dim"))


def category_lines(means: Sequence[CategoryMean]) -> list[str]:
    """Two or three lines a category and length: each arm's mean, and those without some tasks.

    A category of one task is listed where its group has others: an average over a benchmark never
    stands without its parts.
    """
    spread: dict[str, set[str]] = {}
    blocks: dict[tuple[str, str, int | None], list[CategoryMean]] = {}
    for mean in means:
        spread.setdefault(mean.group, set()).add(mean.category)
        blocks.setdefault((mean.group, mean.category, mean.length), []).append(mean)
    lines = []
    for (group, category, _), members in blocks.items():
        if len(spread[group]) > 1 or len(members[0].tasks) > 1:
            name = f"{group} {category.replace('_', ' ')}"
            lines += [f"{name}, {line}" for line in _mean_lines(members)]
    return ["Averages over tasks:", *lines] if lines else []


def _mean_lines(members: Sequence[CategoryMean]) -> Iterator[str]:
    """Lines of one category at one length, the arms side by side."""
    arms = [
        f"{mean.arm} {_figures(mean.score, mean.delta)}"
        + (f" ({formats.lacking(mean)})" if mean.left_out else "")
        for mean in members
    ]
    yield f"{formats.mean_label(members[0])}: {'; '.join(arms)}"
    beside: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for mean in members:
        for label, part in formats.beside(mean):
            figures = f"{mean.arm} {_figures(part.score, part.delta)}"
            beside.setdefault((label, part.left_out), []).append(figures)
    for (label, tasks), arms in beside.items():
        yield f"{label} ({', '.join(tasks)}): {'; '.join(arms)}"


def _figures(score: float | None, delta: float | None) -> str:
    text = formats.number(score)
    return text if delta is None else f"{text} (Δ {formats.signed(delta)})"


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
            for name, part in formats.beside(row):
                table.add_row(*map(_text, (f"    {name}", *_part_cells(part, joint))))
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
            if row.ttft_speedup is not None:
                parts.append(f"speed-up {speedup}")
            console.print(_text(f"  {arm}"))
            for line in _filled(parts, console.width - 4):
                console.print(_text(f"    {line}"))
            for name, part in formats.beside(row):
                n, _, score, delta, *_ = _part_cells(part, " ")
                console.print(_text(f"    {name} ({', '.join(part.left_out)}):"))
                for line in _filled((f"n {n}", f"score {score}", f"Δ {delta}"), console.width - 6):
                    console.print(_text(f"      {line}"))


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
        formats.seconds(row.ttft_s.median),
        _with_interval(formats.ratio(row.ttft_speedup), row.ttft_speedup, joint, digits=2),
        formats.statuses(row.status),
    ]


def _part_cells(part: Without, joint: str) -> list[str]:
    """Figures of a pooled row without some of its tasks, under the row's own headers."""
    return [
        str(part.n),
        "",
        _with_interval(formats.score(part.score), part.score, joint),
        _with_interval(formats.delta(part.delta), part.delta, joint, with_sign=True),
        "",
        "",
        ", ".join(part.left_out),
    ]


def _with_interval(
    figure: str, estimate: Interval | None, joint: str, *, with_sign: bool = False, digits: int = 3
) -> str:
    interval = formats.interval(estimate, with_sign=with_sign, digits=digits)
    return f"{figure}{joint}{interval}" if interval else figure


def _verdict(rows: Sequence[Row]) -> str:
    """Say beside a heading that none of its comparisons, or not every one, decides anything."""
    compared = [row for row in rows if row.delta is not None and row.delta.value is not None]
    undecided = [row for row in compared if row.undecided]
    if not undecided:
        return ""
    if len(undecided) == len(compared):
        return f" · {TOO_FEW}"
    return f" · {TOO_FEW} in {len(undecided)} of {len(compared)} arms"


def _text(content: str, style: str = "") -> Text:
    from rich.text import Text

    return Text(formats.visible(content), style=style)
