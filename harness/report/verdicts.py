"""Verdicts in words: every pruning arm against full prefill, and rivals against each other."""

from __future__ import annotations

from collections.abc import Sequence

from harness.report import formats
from harness.report.source import Report
from harness.schema.rows import RivalComparison, Row


def verdict_lines(rows: Sequence[Row]) -> list[str]:
    """A title and a line a task, its arms side by side; nothing where nothing is compared."""
    by_task: dict[str, list[str]] = {}
    margin = None
    for row in rows:
        if row.verdict is not None and row.level != "seed":
            margin = row.verdict.margin
            words = f"{formats.arm_label(row)} {row.verdict.words}{_average(row)}"
            by_task.setdefault(_label(row), []).append(words)
    if margin is None:
        return []
    lines = [f"  {task}: {'; '.join(arms)}" for task, arms in by_task.items()]
    return [f"Verdicts against full prefill, at a margin of {margin:g}:", *lines]


def _average(row: Row) -> str:
    """The difference behind a group's verdict: its row shows that of pooled examples."""
    delta = None if row.macro is None else row.macro.delta
    if delta is None:
        return ""
    return f" (Δ {formats.delta(delta)} {formats.interval(delta, with_sign=True)}".rstrip() + ")"


def _label(row: Row) -> str:
    if row.macro is None:
        return formats.task_label(row)
    alike = f"{row.task} (mean of {len(row.tasks)} tasks, {row.macro.weighs} weighing alike)"
    return alike if row.length is None else f"{alike} @ {row.length:,}"


def session_note(rows: Sequence[Row]) -> str | None:
    """Say what a speed-up's interval does not know: how sessions differ; None without one."""
    found = {
        row.ttft_speedup.sessions
        for row in rows
        if row.ttft_speedup is not None and row.ttft_speedup.bounds is not None
    } - {None}
    if not found:
        return None
    most = max(n for n in found if n is not None)
    within = "within one session" if most == 1 else f"within {most} sessions, blocks as they come"
    return f"Intervals of speed-ups are {within}: they do not say how sessions differ."


def rival_lines(found: Sequence[RivalComparison]) -> list[str]:
    """A title and a line a comparison; nothing where there are no rivals at one keep rate."""
    lines = []
    for one in found:
        delta = one.delta
        interval = formats.interval(delta, with_sign=True)
        figure = f"Δ {formats.delta(delta)} {interval}".rstrip()
        p = "" if delta.p_holm is None else f", p {delta.p_holm:.2g} after Holm"
        lines.append(
            f"  {_place(one)}: {one.arm} against {one.rival} {one.verdict.words} ({figure}{p})"
        )
    return ["Rivals at the same keep rate, paired by example:", *lines] if lines else []


def verdict_blocks(report: Report) -> list[list[str]]:
    """Both kinds as lists of a title and its lines, for pages; kinds without lines are absent."""
    found = (verdict_lines(report.rows), rival_lines(report.rivals))
    return [[line.strip() for line in lines] for lines in found if lines]


def _place(one: RivalComparison) -> str:
    name = one.tasks[0] if len(one.tasks) == 1 else f"{one.group} (mean of {len(one.tasks)} tasks)"
    return name if one.length is None else f"{name} @ {one.length:,}"
