"""A plan that has something to spread: two tasks, three arms, on the fake engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.run.config import RunConfig
from harness.run.folder import open_run
from harness.run.plan import Plan, build_plan
from harness.run.progress import RunProgress
from harness.run.recording import Recorder
from harness.run.work import Outstanding

CONFIG = RunConfig(
    task=("ruler_niah_single_1", "ruler_vt"),
    length=(1024,),
    arms={"full": {}, "specprefill": {}},
    keep=(0.1, 0.3),
    limit=10,
    latency_samples=2,
    preset="smollm2",
    engine="fake",
)


@pytest.fixture(scope="package")
def plan() -> Plan:
    """Six cells on twenty examples."""
    return build_plan(CONFIG)


@pytest.fixture
def recorder(plan: Plan, tmp_path: Path) -> Iterator[Recorder]:
    """A recorder on a new store."""
    with open_run(plan, tmp_path / "run") as store:
        work = Outstanding(plan, store)
        yield Recorder(plan, store, work, RunProgress(work.units, work.requests, quiet=True))
