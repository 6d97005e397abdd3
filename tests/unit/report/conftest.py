"""Made-up runs and rows to render."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from synthetic import Arm, Task, build_store

from harness.analysis.summary.notes import remarks
from harness.schema.receipts import Status
from harness.schema.rows import Row

REFERENCE: dict[str, Any] = {
    "speed_up": 0.8,
    "budget_kind": "attention",
    "kernel": "reference kernel",
}
Entry = Callable[..., Row]


@pytest.fixture
def entry() -> Entry:
    """Return a factory of rows; keyword arguments replace single fields."""

    def make(task: str, method: str = "specprefill", **changes: Any) -> Row:
        full = method == "full"
        made: dict[str, Any] = {
            "arm": "full" if full else "specprefill-k10-lah8",
            "base": "full" if full else "specprefill",
            "series": "full" if full else "specprefill-lah8",
            "method": method,
            "engine": "vllm",
            "dtype": "bfloat16",
            "level": "task",
            "group": "ruler",
            "category": "retrieval",
            "metric": "string_match_all",
            "budget_kind": "none" if full else "tokens",
            "improves_ttft": not full,
            "task": task,
            "length": 2048,
            "seed": 0,
            "look_ahead": None if full else 8,
            "keep_requested": None if full else 0.1,
            "keep_achieved": 1.0 if full else 0.109375,
            "n": 20,
            "score": {"mean": 0.95, "low": 0.81, "high": 0.99},
            "delta": None
            if full
            else {"mean": -0.02, "low": -0.11, "high": 0.07, "n": 20, "clusters": 20},
            "ttft_s": {"median": 2.345 if full else 0.651},
            "ttft_speedup": None if full else {"ratio": 3.42, "low": 3.1, "high": 3.8, "blocks": 8},
            "stages_s": {"score": 0.31, "select": 0.001, "prefill": 0.3, "other": 0.04},
            "status": {"kept_all" if full else "active": 20},
        }
        row = Row(**(made | changes))
        return row.model_copy(update={"remarks": remarks(row)})

    return make


@pytest.fixture(scope="session")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run with several tasks, lengths, keep rates, look-aheads and budget kinds."""
    tasks = [
        Task(name, category=category, length=length, n=12, full_rate=rate)
        for length in (1024, 2048)
        for name, category, rate in (
            ("ruler_niah_single_1", "retrieval", 0.95),
            ("ruler_niah_multikey_1", "retrieval", 0.9),
            ("ruler_cwe", "aggregation", 0.6),
            ("ruler_fwe", "aggregation", 0.0),
        )
    ]
    arms = [
        Arm(f"specprefill-k{100 * keep:g}-lah{depth}", keep=keep, look_ahead=depth)
        for keep in (0.1, 0.3)
        for depth in (1, 8)
    ]
    silent = (Status.ACTIVE, Status.SKIPPED_MIN_TOKENS)
    arms += [
        Arm("random-k10", "random", 0.1, None, loss=0.9, speed_up=5, statuses=silent),
        Arm("minference-k10", "minference", 0.1, None, **REFERENCE),
    ]
    folder = tmp_path_factory.mktemp("runs") / "sweep"
    return build_store(folder, tasks=tasks, arms=arms, run_id="sweep")


@pytest.fixture(scope="session")
def single(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run of one task, one arm and five examples, timed once (case 33)."""
    folder = tmp_path_factory.mktemp("runs") / "single"
    return build_store(folder, tasks=[Task(length=1024, n=5)], blocks=1, run_id="single")
