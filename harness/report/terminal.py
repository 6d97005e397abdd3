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
from harness.report.rows import Estimate, Row, missing_reasons, rows_of, silent_notice

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

WIDE = 150
MEDIUM = 112

_HEADERS = ("task and arm", "n", "keep", "score", "Δ to full", "TTFT", "speed-up", "status")
_RIGHT = frozenset({"n", "TTFT"})
_FOLDED = frozenset({"task and arm", "status"})


def render_table(summary: Mapping[str, Any], console: Console) -> None:
    """Print the summary of a run.

    Parameters
    ----------
    summary
        JSON object of :func:`harness.summary.summarize`, as ``harness run --json`` prints it.
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
    marks = _footnote_marks(rows)
    if console.width >= MEDIUM:
        console.print(_table(rows, marks, "\n" if console.width < WIDE else " "))
    else:
        _print_blocks(rows, marks, console)
    for line in _footnotes(rows, marks):
        console.print(_text(line, "dim"))


def _table(rows: Sequence[Row], marks: Mapping[str, str], joint: str) -> Table:
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
        table.add_row(_text(label + _pooled_note(members[0]), "bold"))
        for row in members:
            arm, *figures = _cells(row, marks, joint)
            table.add_row(*map(_text, (f"  {arm}", *figures)))
        table.add_section()
    return table


def _print_blocks(rows: Sequence[Row], marks: Mapping[str, str], console: Console) -> None:
    for label, block in groupby(rows, key=formats.task_label):
        members = list(block)
        console.print(_text(label + _pooled_note(members[0]), "bold"))
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


def _cells(row: Row, marks: Mapping[str, str], joint: str) -> list[str]:
    return [
        formats.arm_label(row),
        str(row.n),
        formats.keep(row).replace(" ", joint, 1),
        _with_interval(formats.score(row.score), row.score, marks, joint),
        _with_interval(formats.delta(row.delta), row.delta, marks, joint, with_sign=True),
        formats.seconds(row.ttft_s),
        _with_interval(formats.ratio(row.speedup), row.speedup, marks, joint, digits=2),
        formats.statuses(row.status),
    ]


def _with_interval(
    figure: str,
    estimate: Estimate | None,
    marks: Mapping[str, str],
    joint: str,
    *,
    with_sign: bool = False,
    digits: int = 3,
) -> str:
    if estimate is None:
        return figure
    interval = formats.interval(estimate, with_sign=with_sign, digits=digits)
    if interval:
        return f"{figure}{joint}{interval}"
    return figure + marks.get(estimate.reason or "", "")


def _pooled_note(row: Row) -> str:
    return f" · {row.note}" if row.pooled and row.note else ""


def _footnote_marks(rows: Sequence[Row]) -> dict[str, str]:
    reasons = missing_reasons(rows)
    return {reason: f" ({number})" for number, reason in enumerate(reasons, start=1)}


def _footnotes(rows: Sequence[Row], marks: Mapping[str, str]) -> list[str]:
    lines = ["[ ] are 95 % intervals; Δ and speed-up are paired with full prefill."]
    lines += [f"{mark.strip()} {reason}" for reason, mark in marks.items()]
    remarks: dict[str, None] = {}
    for row in rows:
        text = formats.notes(row)
        if text and not (row.pooled and text == row.note):
            remarks.setdefault(f"{formats.task_label(row)}, {formats.arm_label(row)}: {text}")
    return lines + list(remarks)


def _text(content: str, style: str = "") -> Text:
    from rich.text import Text

    return Text(formats.visible(content), style=style)
