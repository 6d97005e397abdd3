"""The hooks' proof: what an engine must show of a sparse request before its record counts.

A hook that never ran leaves no other trace: the target would prefill the kept tokens at
positions 0, 1, … and answer plausibly, and the table would call it the method.
"""

from __future__ import annotations

from dataclasses import replace

from harness.errors import HarnessError
from harness.methods.base import Method
from harness.schema.prompts import PreparedPrompt
from harness.schema.receipts import POSITIONS, ROWS, Receipt, Status


class UnprovenError(HarnessError):
    """A request ran without the counters that show that its positions or scores were real."""


def check_proof(method: Method, prepared: PreparedPrompt, receipt: Receipt) -> Receipt:
    """Refuse a request whose hooks did not run; note in the others' receipts what was due.

    Parameters
    ----------
    prepared
        What the engine was given; explicit positions need ``positions_applied`` ≥ 1, the steps in
        which the target's hook wrote them.
    receipt
        The receipt with the engine's counters; an active one of a method with a speculator needs
        ``rows_captured`` ≥ 1, the query rows that its hook kept.

    Returns
    -------
    Receipt
        The same, with the counters that were due by name in ``details["proof"]``: a reader of the
        store can tell a request without proof from one that needed none.

    Raises
    ------
    UnprovenError
        A counter is absent or 0.
    """
    counters, due = receipt.counters, []
    if prepared.positions is not None:
        due.append(POSITIONS)
        if not counters.get(POSITIONS):
            raise UnprovenError(
                f"{prepared.example_id}: the engine applied no positions to a sparse prompt "
                f"({POSITIONS} is 0): its hook did not run, so nothing of this cell counts"
            )
    if "scorer" in method.needs and receipt.status is Status.ACTIVE:
        due.append(ROWS)
        if not counters.get(ROWS):
            raise UnprovenError(
                f"{prepared.example_id}: the speculator kept no query rows ({ROWS} is 0): its "
                "hook did not run, so nothing of this cell counts"
            )
    return replace(receipt, details={**receipt.details, "proof": due}) if due else receipt
