"""Which rows stand together in one panel of a figure: one task (or pooled group) at one length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.report import formats
from harness.schema.rows import Row

MAX_PANELS = 12
"""More small charts than this are no longer compared by eye; the table has every row."""


@dataclass(frozen=True, slots=True)
class Panel:
    """Rows that share an axis."""

    title: str
    rows: tuple[Row, ...]


def panels(
    rows: Sequence[Row], usable: Callable[[Row], bool], *, by_budget: bool = False
) -> tuple[list[Panel], str]:
    """Group rows by run, task and length; pooled groups first.

    Parameters
    ----------
    usable
        Says which rows have what the figure shows. A panel whose only usable row is the
        reference is left out.
    by_budget
        Whether arms of different budget kinds must not share a panel (DESIGN.md, rule 5). Full
        prefill stands in each.

    Returns
    -------
    tuple
        At most :data:`MAX_PANELS` panels, and a sentence that says what was left out (or "").
    """
    found: dict[tuple[str, ...], list[Row]] = {}
    # Stable: within these the summary's order stays. Floor tasks say little and come last.
    for row in sorted(rows, key=lambda r: (not r.pooled, r.floor)):
        if row.level != "seed" and usable(row):
            found.setdefault(_place(row), []).append(row)
    made = []
    for members in found.values():
        made += _by_budget(members) if by_budget else [Panel(_title(members[0]), tuple(members))]
    made = [panel for panel in made if any(not row.is_reference for row in panel.rows)]
    left_out = len(made) - MAX_PANELS
    note = f"{left_out} further panels are left out; the table has every row." * (left_out > 0)
    return made[:MAX_PANELS], note


def _by_budget(members: list[Row]) -> list[Panel]:
    reference = [row for row in members if row.is_reference]
    kinds = list(dict.fromkeys(row.budget_kind for row in members if not row.is_reference))
    made = []
    for kind in kinds:
        arms = [row for row in members if not row.is_reference and row.budget_kind == kind]
        title = _title(members[0]) + (f" · {kind} budget" if len(kinds) > 1 else "")
        made.append(Panel(title, (*reference, *arms)))
    return made


def _place(row: Row) -> tuple[str, ...]:
    return str(row.run), row.task, str(row.length), row.level


def _title(row: Row) -> str:
    title = formats.task_label(row) + (" (floor)" if row.floor else "")
    return title if row.run is None else f"{title} [{row.run}]"
