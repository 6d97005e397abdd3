"""Samples of public data sets that lie beside the checkout, not in it (their licences differ)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
PARITY = HERE / "data" / "metric_parity.jsonl"


def sample(name: str) -> Path:
    """Return a sample file; skip the test where this machine does not have it."""
    named = os.environ.get("SPECPREFILL_SAMPLES")
    folders = [Path(named)] if named else []
    folders += [
        HERE.parents[1] / "shared" / "data",
        HERE.parents[1] / "steering" / "shared" / "data",
    ]
    for folder in folders:
        if (folder / name).is_file():
            return folder / name
    pytest.skip(f"{name} is not here: name its folder in SPECPREFILL_SAMPLES")
