"""Cells of one arm generate together and fail alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from harness.engines.base import Generation, Sampling
from harness.engines.fake import FakeEngine
from harness.run.cells import by_examples
from harness.run.config import RunConfig
from harness.run.folder import open_run
from harness.run.plan import Plan, build_plan
from harness.run.pools import by_arm, pools
from harness.run.runner import Outcome, execute
from harness.run.store import Store
from harness.schema.prompts import PreparedPrompt
from harness.schema.records import CellStatus

TASKS = ("ruler_niah_single_1", "ruler_niah_single_2", "ruler_niah_multikey_1")
PAIRS = 2 * 3 * 2
"""Examples a task × tasks × arms."""


@pytest.fixture(scope="module")
def plan() -> Plan:
    """Three small tasks and two arms on the fake engine."""
    return build_plan(
        RunConfig(
            task=TASKS,
            length=(1024,),
            arms={"full": {}, "specprefill": {}},
            keep=(0.1,),
            limit=2,
            latency_samples=0,
            preset="smollm2",
            engine="fake",
        )
    )


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The example ids of each call of the engine's ``generate``."""
    seen: list[list[str]] = []
    real = FakeEngine.generate

    def generate(
        self: FakeEngine, prompts: Iterable[PreparedPrompt], sampling: Sampling
    ) -> Iterator[Generation]:
        seen.append([])
        for generation in real(self, prompts, sampling):
            seen[-1].append(generation.example_id)
            yield generation

    monkeypatch.setattr(FakeEngine, "generate", generate)
    return seen


def run(plan: Plan, folder: Path) -> Outcome:
    """Run or resume."""
    with open_run(plan, folder) as store:
        return execute(plan, store, quiet=True)


def test_tasks_share_batches(plan: Plan, tmp_path: Path, batches: list[list[str]]) -> None:
    """Three tasks with equal sampling are one batch an arm, and every pair has its own record."""
    run(plan, tmp_path)
    assert [len(batch) for batch in batches] == [6, 6]
    with Store.open(tmp_path) as store:
        assert len(store.done_pairs()) == PAIRS
        assert {str(cell.status) for cell in store.cells()} == {"done"}


def test_one_cell_fails_alone(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batches: list[list[str]]
) -> None:
    """A fault of one task's sparse prompts costs that cell only, and nothing runs twice."""
    real = FakeEngine._generate

    def generate(self: FakeEngine, prompt: PreparedPrompt, *rest: object, **named: bool):
        if prompt.positions is not None and TASKS[1] in prompt.example_id:
            raise RuntimeError("out of memory")
        return real(self, prompt, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(FakeEngine, "_generate", generate)
    outcome = run(plan, tmp_path)
    assert list(outcome.failed.values()) == ["RuntimeError: out of memory"]
    with Store.open(tmp_path) as store:
        failed = [cell for cell in store.cells() if cell.status is CellStatus.FAILED]
        assert [(cell.task, cell.method) for cell in failed] == [(TASKS[1], "specprefill")]
        assert len(store.done_pairs()) == PAIRS - 2
    done = [example for batch in batches for example in batch]
    assert len(done) == PAIRS - 2


def test_fail_fast_stops_at_the_first_failure(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batches: list[list[str]]
) -> None:
    """Nothing is run together, so that what failed is known and nothing after it runs."""

    def generate(*_: object, **__: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(FakeEngine, "_generate", generate)
    with open_run(plan, tmp_path) as store:
        with pytest.raises(RuntimeError, match="out of memory"):
            execute(plan, store, fail_fast=True, quiet=True)
        assert [str(cell.status) for cell in store.cells()].count("failed") == 1
    assert len(batches) == 1


def test_pools_are_bounded(plan: Plan) -> None:
    """No more examples than allowed run together, but a task's examples are never split."""

    def sizes(**named: int) -> list[int]:
        return [len(by_examples(pool)) for pool in pools(plan.cells, **named)]

    assert (sizes(most=4), sizes(most=1), sizes()) == ([2, 1], [1, 1, 1], [3])


def test_the_longest_look_ahead_comes_first(plan: Plan) -> None:
    """Scores of the longest look-ahead serve the others, so that its cells are first."""
    config = plan.config.model_copy(update={"look_ahead": (1, 8, 4)})
    found = by_arm(build_plan(config).cells)
    assert [alike[0].record.look_ahead for alike in found] == [8, 4, 1, None]
    assert all(len(alike) == len(TASKS) for alike in found)
