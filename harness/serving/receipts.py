"""The receipt as a client gets it: ``timings.specprefill``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.schema.prompts import PreparedPrompt


@dataclass
class ServedReceipt:
    """What became of one prompt, filled in while it is served.

    Attributes
    ----------
    prepared
        The prompt as the target gets it; None until it has been planned.
    seconds
        By stage: ``score`` (waiting for the speculator and its work), ``select``, and ``prefill``
        (from handing the tokens to the target until its first token, waiting included).
    """

    prepared: PreparedPrompt | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def kept_tokens(self) -> int:
        """Tokens that the target prefills."""
        return 0 if self.prepared is None else len(self.prepared.token_ids)

    @property
    def scored_tokens(self) -> int:
        """Tokens that the speculator has scored, in its own tokens."""
        if self.prepared is None:
            return 0
        details = self.prepared.receipt.details
        known: int = details.get("speculator_tokens", self.prepared.original_length)
        return known if details.get("rows") else 0

    def to_json(self) -> dict[str, Any] | None:
        """Return the JSON object of ``timings.specprefill``; None where nothing was planned."""
        if self.prepared is None:
            return None
        receipt, length = self.prepared.receipt, self.prepared.original_length
        return {
            "status": str(receipt.status),
            "reason": receipt.reason,
            "keep_requested": receipt.keep_requested,
            "keep_achieved": self.kept_tokens / max(1, length),
            "prompt_tokens": length,
            "scored_tokens": self.scored_tokens,
            "kept_tokens": self.kept_tokens,
            "look_ahead": receipt.details.get("rows", 0),
            "windows": receipt.details.get("windows", 0),
            "seconds": {name: round(value, 6) for name, value in self.seconds.items()},
        }


def timings(receipts: Sequence[ServedReceipt]) -> dict[str, Any] | None:
    """The ``timings`` field of a response; None where no prompt was planned.

    One object, or a list in prompt order where the request had several prompts.
    """
    made = [found for found in (receipt.to_json() for receipt in receipts) if found is not None]
    if not made:
        return None
    return {"specprefill": made[0] if len(receipts) == 1 else made}
