"""The finding in plain sentences: what was kept, what it cost in quality, what it bought in time.

The lead is the first SpecPrefill arm of the run, never the best one. Where the interval spans
zero the sentence says that the run cannot tell, not that nothing changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.analysis.floor import FLOOR_MEANS
from harness.report import formats
from harness.report.source import Report
from harness.schema.estimates import Delta, Interval
from harness.schema.receipts import REFERENCE_KERNEL
from harness.schema.rows import Row

MAX_MORE = 8


@dataclass(frozen=True, slots=True)
class Tile:
    """One figure of the lead, with its interval or the reason why it has none."""

    name: str
    figure: str
    within: str


@dataclass(frozen=True, slots=True)
class Finding:
    """The lead sentences with their figures, the other arms in short, and the floor tasks."""

    quality: str
    latency: str | None
    more: tuple[str, ...]
    floors: tuple[str, ...]
    tiles: tuple[Tile, ...] = ()


def find(report: Report) -> Finding:
    """Put the report's headline into words."""
    candidates = [row for row in report.headline_rows if not row.is_reference and not row.floor]
    compared = [row for row in candidates if row.delta is not None and row.delta.value is not None]
    floors = tuple(_floors(report.rows))
    if not compared:
        return Finding(_nothing_compared(report.rows, candidates), None, (), floors)
    lead = next((row for row in compared if row.method == "specprefill"), compared[0])
    others = [row for row in compared if row is not lead]
    more = [_short(row) for row in others[:MAX_MORE]]
    if len(others) > MAX_MORE:
        more.append(f"{len(others) - MAX_MORE} further comparisons stand in the table.")
    return Finding(
        _quality(lead, reference_of(lead, report.rows)),
        _latency(lead, reference_of(lead, report.rows), report.models_of(lead)),
        tuple(more),
        floors,
        tuple(_tiles(lead)),
    )


def reference_of(row: Row, rows: Iterable[Row]) -> Row | None:
    """Full prefill's row on the same run, task, length and engine; None with ``--no-reference``."""
    place = _place(row)
    return next((r for r in rows if r.is_reference and _place(r) == place), None)


def _place(row: Row) -> tuple[object, ...]:
    return row.run, row.task, row.length, row.seed, row.level, row.engine, row.dtype


def _quality(row: Row, reference: Row | None) -> str:
    kept = ""
    if row.keep_achieved is not None:
        kept = f" kept {100 * row.keep_achieved:.1f} % of the prompt and"
    against = ""
    full = None if reference is None else _score(reference)
    if full is not None:
        against = f" where full prefill scored {formats.number(full)}"
    return (
        f"{formats.arm_label(row)}{kept} scored {formats.number(_score(row))}{against} on "
        f"{_where(row)} (n = {row.n}): {_difference(_delta(row))}.{_beside(row)}"
    )


def _score(row: Row) -> float | None:
    """The score that a finding quotes: of a group, its benchmark's own average."""
    return row.score.value if row.macro is None else row.macro.score


def _delta(row: Row) -> Delta | None:
    """The difference that a finding quotes, of the same average."""
    return row.delta if row.macro is None or row.macro.delta is None else row.macro.delta


def _beside(row: Row) -> str:
    """Say the same of the tasks that the model can do, where a pooled row holds others too."""
    part = row.without_floor
    if part is None:
        return ""
    (label, _), *_ = formats.beside(row)
    return (
        f" {label[:1].upper()}{label[1:]} ({', '.join(part.left_out)}), examples pooled, it scored "
        f"{formats.score(part.score)} (n = {part.n}): {_difference(part.delta)}."
    )


def _difference(delta: Interval | None) -> str:
    if delta is None or delta.value is None:
        return "not compared"
    if delta.bounds is None:
        why = f": {delta.reason}" if delta.reason else ""
        return f"a difference of {formats.delta(delta)}, too little to conclude from{why}"
    low, high = delta.bounds
    within = f"95 % interval {formats.signed(low)} to {formats.signed(high)}"
    if high < 0:
        return f"a loss of {formats.number(-delta.value)} ({within})"
    if low > 0:
        return f"a gain of {formats.number(delta.value)} ({within})"
    return f"a difference of {formats.delta(delta)} that this run cannot tell from none ({within})"


def _latency(row: Row, reference: Row | None, models: str) -> str | None:
    speedup = row.ttft_speedup
    if speedup is None or speedup.value is None:
        return None
    medians = ""
    full = None if reference is None else reference.ttft_s.median
    if row.ttft_s.median is not None and full is not None:
        medians = f", median {formats.seconds(row.ttft_s.median)} against {formats.seconds(full)}"
    at = "" if row.length is None else f" at {row.length:,} tokens"
    kernel = f", with a {REFERENCE_KERNEL}" if row.has_reference_kernel else ""
    return (
        f"Its first token came {_sooner(speedup)}{medians}, one request at a time{at}, on "
        f"{models}{kernel}."
    )


def _tiles(row: Row) -> Iterable[Tile]:
    if row.keep_achieved is not None:
        asked = "" if row.keep_requested is None else f"{100 * row.keep_requested:g} % asked"
        yield Tile("of the prompt kept", f"{100 * row.keep_achieved:.1f} %", asked)
    for name, figure, estimate, digits in (
        ("score against full prefill", formats.delta(_delta(row)), _delta(row), 3),
        ("TTFT speed-up", formats.ratio(row.ttft_speedup), row.ttft_speedup, 2),
    ):
        if estimate is not None and estimate.value is not None:
            interval = formats.interval(estimate, with_sign=digits == 3, digits=digits)
            yield Tile(name, figure, interval or f"no interval: {estimate.reason}")


def _sooner(speedup: Interval) -> str:
    assert speedup.value is not None  # the caller has looked
    if speedup.bounds is None:
        within = f"no interval: {speedup.reason}" if speedup.reason else "no interval"
    else:
        within = f"95 % interval {speedup.bounds[0]:.2f}× to {speedup.bounds[1]:.2f}×"
    if speedup.value >= 1:
        return f"{speedup.value:.2f}× sooner ({within})"
    return f"later, at {speedup.value:.2f}× the speed of full prefill ({within})"


def _short(row: Row) -> str:
    parts = [f"{formats.arm_label(row)} on {_where(row)}: {_difference(_delta(row))}"]
    if row.ttft_speedup is not None and row.ttft_speedup.value is not None:
        kernel = f" with a {REFERENCE_KERNEL}" if row.has_reference_kernel else ""
        parts.append(f"TTFT{kernel} {_sooner(row.ttft_speedup)}")
    return "; ".join(parts) + "."


def _where(row: Row) -> str:
    name = row.task
    if row.macro is not None:
        alike = "categories" if row.macro.weighs == "categories" else "tasks"
        name = f"{row.task} (mean of {len(row.tasks)} tasks, {alike} weighing alike)"
    elif row.pooled:
        name = f"{row.task} (tasks pooled)"
    return name if row.length is None else f"{name} at {row.length:,} tokens"


def _nothing_compared(rows: Sequence[Row], candidates: Sequence[Row]) -> str:
    arms = dict.fromkeys(formats.arm_label(row) for row in rows if not row.is_reference)
    if not arms:
        return "Full prefill alone was run; there is nothing to compare it with."
    if not candidates:
        return (
            f"Nothing is concluded about {', '.join(arms)}: {FLOOR_MEANS} on every task of this "
            "run."
        )
    names = ", ".join(dict.fromkeys(formats.arm_label(row) for row in candidates))
    if any(row.is_reference for row in rows):
        return (
            f"{names}: no example has a score both here and under full prefill, so no Δ is shown."
        )
    return f"{names}: measured without a paired full prefill, so no difference is reported."


def _floors(rows: Sequence[Row]) -> Iterable[str]:
    floors = dict.fromkeys(formats.task_label(row) for row in rows if row.floor and not row.pooled)
    if floors:
        pooled = any(row.pooled for row in rows)
        also = " Averages hold floor tasks; those without them stand beside." if pooled else ""
        yield (
            f"Floor, because {FLOOR_MEANS} there: {', '.join(floors)}. A model that cannot do a "
            f"task shows nothing about pruning.{also}"
        )
