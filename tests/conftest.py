"""For every test: threads that wait do not spin, and nothing reaches for the network."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Read by OpenMP when torch is imported, which is after this.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

FOLDERS = ("unit", "contract", "e2e", "engine")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run what is quick first, and the shared engines last: nothing then waits beside them."""
    root = Path(__file__).parents[1]

    def place(item: pytest.Item) -> int:
        parts = item.path.relative_to(root).parts  # tests/unit/…, or harness/methods/contract/…
        return next((i for i, name in enumerate(FOLDERS) if name in parts), len(FOLDERS))

    items.sort(key=place)
