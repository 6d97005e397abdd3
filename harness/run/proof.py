"""The hooks' proof: what an engine must show of a sparse request before its record counts.

A hook that never ran leaves no other trace: the target would prefill the kept tokens at
positions 0, 1, … and answer plausibly, and the table would call it the method.
"""

from __future__ import annotations

from harness.errors import HarnessError
from harness.methods.base import Method
from harness.schema.prompts import PreparedPrompt
from harness.schema.receipts import Receipt, Status


class UnprovenError(HarnessError):
    """A request ran without the counters that show that its positions or scores were real."""


def check_proof(method: Method, prepared: PreparedPrompt, receipt: Receipt) -> None:
    """Refuse a request whose hooks did not run.

    Parameters
    ----------
    prepared
        What the engine was given; explicit positions need ``positions_applied`` ≥ 1, the steps in
        which the target's hook wrote them.
    receipt
        The receipt with the engine's counters; an active one of a method with a speculator needs
        ``rows_captured`` ≥ 1, the query rows that its hook kept.

    Raises
    ------
    UnprovenError
        A counter is absent or 0.
    """
    counters = receipt.counters
    if prepared.positions is not None and not counters.get("positions_applied"):
        raise UnprovenError(
            f"{prepared.example_id}: the engine applied no positions to a sparse prompt "
            "(positions_applied is 0): its hook did not run, so nothing of this cell counts"
        )
    scored = "scorer" in method.needs and receipt.status is Status.ACTIVE
    if scored and not counters.get("rows_captured"):
        raise UnprovenError(
            f"{prepared.example_id}: the speculator kept no query rows (rows_captured is 0): its "
            "hook did not run, so nothing of this cell counts"
        )
