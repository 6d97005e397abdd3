"""Rows of a summary, made up, as ``harness run --json`` prints them."""

from collections.abc import Callable
from typing import Any

import pytest

Entry = Callable[..., dict[str, Any]]


@pytest.fixture
def entry() -> Entry:
    """Return a factory of summary entries; keyword arguments replace single fields."""

    def make(task: str, method: str = "specprefill", **changes: Any) -> dict[str, Any]:
        full = method == "full"
        made: dict[str, Any] = {
            "arm": "full" if full else "specprefill-k10-lah8",
            "method": method,
            "task": task,
            "length": 2048,
            "seed": 0,
            "look_ahead": None if full else 8,
            "keep_requested": None if full else 0.1,
            "keep_achieved": 1.0 if full else 0.109375,
            "n": 20,
            "score": {"mean": 0.95, "low": 0.81, "high": 0.99},
            "delta": None if full else {"mean": -0.02, "low": -0.11, "high": 0.07},
            "ttft_s": {"median": 2.345 if full else 0.651},
            "ttft_speedup": None if full else {"ratio": 3.42, "low": 3.1, "high": 3.8},
            "stages_s": {"score": 0.31, "select": 0.001, "prefill": 0.3, "other": 0.04},
            "status": {"kept_all" if full else "active": 20},
        }
        return made | changes

    return make
