"""Lets a run grow: more examples, tasks, arms, keep rates or seeds beside what it holds already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.run.config import canonical_digest
from harness.run.plan import Plan
from harness.run.store_reading import StoreReading
from harness.schema.records import RunRecord

GROWING = frozenset(
    {
        *("task", "length", "arms", "keep", "look_ahead", "seed", "method_seed"),
        *("limit", "latency_samples", "note"),
    }
)
"""Options that may change where a run grows; what else shapes results must be as it was."""


def changed_options(run: RunRecord, plan: Plan) -> list[str]:
    """Options of the plan that differ from those a run was begun with."""
    now = plan.config.model_dump(mode="json")
    return [key for key in now if now[key] != run.config.get(key)]


def growth(store: StoreReading, run: RunRecord, plan: Plan) -> dict[str, str] | None:
    """Return which planned cell takes over the records of each cell of a store.

    A cell with more examples has another identity, since its data are others: it takes over what
    the cell with fewer has measured, where nothing else differs and every example of the store is
    in the plan, unchanged.

    Returns
    -------
    dict or None
        Id of the planned cell by that of the stored one; None where some record would have no
        place.
    """
    if not GROWING.issuperset(changed_options(run, plan)):
        return None
    planned = {_but_data(cell.record.identity): cell.record.cell_id for cell in plan.cells}
    found = {}
    for cell in store.cells():
        successor = planned.get(_but_data(cell.identity))
        if successor is None:
            return None
        found[cell.cell_id] = successor
    examples = (example.record for cell in plan.cells for example in cell.examples.examples)
    content = {example.example_id: example.content_digest for example in examples}
    held = store.content_digests()
    if any(content.get(example_id) != digest for example_id, digest in held.items()):
        return None
    return found


def _but_data(identity: Mapping[str, Any]) -> str:
    """Hash of what makes a cell the same measurement, whichever examples it has."""
    return canonical_digest({k: v for k, v in identity.items() if k != "data_digest"})
