"""The columns of a row as a table has them: what the CSV prints and Python hands out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

from harness.schema.estimates import Interval
from harness.schema.records import STAGES
from harness.schema.rows import Row, Without

Kind = Literal["Int64", "Float64", "string", "bool"]
Column = tuple[str, Kind, Callable[[Row], Any]]


def _interval(name: str, of: Callable[[Row], Interval | None]) -> Iterator[Column]:
    """Columns of a figure and the ends of its interval; None where the row has no such figure."""

    def column(end: str, read: Callable[[Interval], float | None]) -> Column:
        def value(row: Row) -> float | None:
            found = of(row)
            return None if found is None else read(found)

        return f"{name}{end}", "Float64", value

    yield column("", lambda found: found.value)
    yield column("_low", lambda found: found.low)
    yield column("_high", lambda found: found.high)


def _beside(name: str, of: Callable[[Row], Without | None]) -> Iterator[Column]:
    """Columns of a pooled row's figures without some of its tasks."""

    def column(read: Callable[[Without], Any]) -> Callable[[Row], Any]:
        def value(row: Row) -> Any:
            part = of(row)
            return None if part is None else read(part)

        return value

    yield f"tasks_{name}", "string", column(lambda part: " ".join(part.left_out))
    yield from _interval(f"score_{name}", column(lambda part: part.score))
    yield from _interval(f"delta_{name}", column(lambda part: part.delta))


def _stage(name: str) -> Column:
    return f"{name}_s", "Float64", lambda row: row.stages_s.get(name)


_COLUMNS: tuple[Column, ...] = (
    ("run", "string", lambda row: row.run),
    ("level", "string", lambda row: row.level),
    ("group", "string", lambda row: row.group),
    ("category", "string", lambda row: row.category),
    ("task", "string", lambda row: row.task),
    ("length", "Int64", lambda row: row.length),
    ("seed", "Int64", lambda row: row.seed),
    ("arm", "string", lambda row: row.arm),
    ("method", "string", lambda row: row.method),
    ("look_ahead", "Int64", lambda row: row.look_ahead),
    ("budget_kind", "string", lambda row: row.budget_kind),
    ("keep_requested", "Float64", lambda row: row.keep_requested),
    ("keep_achieved", "Float64", lambda row: row.keep_achieved),
    ("n", "Int64", lambda row: row.n),
    *_interval("score", lambda row: row.score),
    *_interval("delta", lambda row: row.delta),
    ("ttft_median_s", "Float64", lambda row: row.ttft_s.median),
    ("ttft_requests", "Int64", lambda row: row.ttft_s.requests),
    *_interval("ttft_speedup", lambda row: row.ttft_speedup),
    *map(_stage, STAGES),
    ("evidence_kept", "Float64", lambda row: row.evidence_kept),
    ("floor", "bool", lambda row: row.floor),
    ("status", "string", lambda row: " ".join(f"{name}={n}" for name, n in row.status.items())),
    ("remarks", "string", lambda row: "; ".join(row.remarks)),
    ("interval", "string", lambda row: None),  # a report's choice, see line()
    ("kernel", "string", lambda row: row.ttft_s.kernel),
    ("counting", "bool", lambda row: row.counting),
    ("tpot_median_s", "Float64", lambda row: row.tpot_s.median),
    ("tpot_requests", "Int64", lambda row: row.tpot_s.requests),
    *_interval("tpot_speedup", lambda row: row.tpot_speedup),
    ("e2e_median_s", "Float64", lambda row: row.e2e_s.median),
    ("e2e_requests", "Int64", lambda row: row.e2e_s.requests),
    *_interval("e2e_speedup", lambda row: row.e2e_speedup),
    ("timed_tokens", "Float64", lambda row: row.timed_tokens),
    *_beside("without_floor", lambda row: row.without_floor),
    *_beside("without_counting", lambda row: row.without_counting),
    ("verdict", "string", lambda row: None if row.verdict is None else row.verdict.kind),
    ("verdict_margin", "Float64", lambda row: None if row.verdict is None else row.verdict.margin),
    ("verdict_needed", "Int64", lambda row: None if row.verdict is None else row.verdict.needed),
)

COLUMNS = tuple(name for name, _, _ in _COLUMNS)
"""Names; later versions may add some at the end, none changes its meaning."""

KINDS: dict[str, Kind] = {name: kind for name, kind, _ in _COLUMNS}
"""Column → pandas' dtype; all of them know a missing value, but for truth values."""


def line(row: Row, run: str, interval: str = "jackknife") -> list[Any]:
    """Return what :data:`COLUMNS` holds of a row; missing is None, never 0."""
    told = {"run": run, "interval": interval}
    return [told[name] if name in told else of(row) for name, _, of in _COLUMNS]
