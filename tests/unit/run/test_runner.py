"""The runner on the fake engine: nothing lost, nothing doubled, failures contained."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from harness.analysis.summary import summarize
from harness.engines.fake import FakeEngine, FakeScorer
from harness.errors import ConfigError, EngineRefusedError, StoreError, UnsupportedError
from harness.run.config import RunConfig
from harness.run.folder import open_run
from harness.run.plan import Plan, build_plan
from harness.run.runner import execute
from harness.run.store import Store
from harness.run.store_files import FILE_NAME
from harness.run.work import Outstanding
from harness.schema.prompts import PreparedPrompt
from harness.schema.receipts import PROOFS
from harness.schema.records import CellStatus

CONFIG = RunConfig(
    task=("ruler_niah_single_1",),
    length=(1024,),
    arms={"full": {}, "specprefill": {}},
    keep=(0.1, 0.3),
    limit=5,
    latency_samples=2,
    preset="smollm2",
    engine="fake",
)


@pytest.fixture(scope="module")
def plan() -> Plan:
    """A plan of three cells on the fake engine."""
    return build_plan(CONFIG)


def run(plan: Plan, folder: Path) -> tuple[int, int]:
    """Run or resume; return new generations and new timed requests."""
    with open_run(plan, folder) as store:
        outcome = execute(plan, store, quiet=True)
    return outcome.generated, outcome.timed


def counts(folder: Path) -> tuple[int, int]:
    """Quality and latency records in a store."""
    with Store.open(folder) as store:
        return len(list(store.quality())), len(list(store.latency()))


def test_a_run_and_its_repeats(plan: Plan, tmp_path: Path) -> None:
    """Each pair is recorded once; repeating the command generates nothing and shows the same."""
    assert run(plan, tmp_path) == (15, 16)
    with Store.open(tmp_path) as store:
        first = summarize(store).to_json()
        assert {str(cell.status) for cell in store.cells()} == {"done"}
    assert run(plan, tmp_path) == (0, 0)
    assert counts(tmp_path) == (15, 16)
    with Store.open(tmp_path) as store:
        assert summarize(store).to_json() == first


def test_selection_decides_what_the_engine_reads(plan: Plan, tmp_path: Path) -> None:
    """The fake speculator likes digits, so the needle survives and every arm scores 1."""
    run(plan, tmp_path)
    with Store.open(tmp_path) as store:
        assert {record.score for record in store.quality()} == {1.0}
        assert all(record.evidence_kept for record in store.quality())
        kept = {round(record.receipt.keep_achieved or 0, 1) for record in store.quality()}
    assert kept == {0.1, 0.3, 1.0}


def test_receipts_say_which_proof_was_due(plan: Plan, tmp_path: Path) -> None:
    """Sparse requests of both protocols name the counters they needed, and have them."""
    run(plan, tmp_path)
    with Store.open(tmp_path) as store:
        receipts = [record.receipt for record in (*store.quality(), *store.latency())]
        counted = store.proofs()
        cells = {cell.cell_id: cell for cell in store.cells()}
    for receipt in receipts:
        sparse = receipt.method == "specprefill"
        assert receipt.details.get("proof") == (list(PROOFS) if sparse else None)
        assert all(receipt.counters[name] > 0 for name in receipt.details.get("proof", ()))
    for cell_id, counts in counted.items():
        due = 0 if cells[cell_id].method == "full" else 5
        assert counts["positions_applied"][:2] == counts["rows_captured"][:2] == (due, due)


def test_stages_add_up_to_ttft(plan: Plan, tmp_path: Path) -> None:
    """A request's score, select, prefill and other seconds sum to its TTFT."""
    run(plan, tmp_path)
    with Store.open(tmp_path) as store:
        for record in store.latency():
            assert sum(record.stages_s.values()) == pytest.approx(record.ttft_s)
            assert record.order == ("ABBA", "BAAB")[record.block % 2]
            letter = record.order[record.slot]
            assert record.role == {"A": "reference", "B": "arm"}[letter]


def _killed_run(plan: Plan, folder: Path, after_s: float) -> None:
    """Run in a child and kill it after ``after_s`` seconds, at whatever it does then."""
    child = os.fork()
    if child == 0:
        try:
            run(plan, folder)
        finally:
            os._exit(0)
    time.sleep(after_s)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_killed_at_random_moments(plan: Plan, tmp_path: Path) -> None:
    """50 kills at random moments: every resume ends with each pair once and the same scores."""
    whole = tmp_path / "whole"
    start = time.monotonic()
    run(plan, whole)
    duration = time.monotonic() - start
    with Store.open(whole) as store:
        expected = {(q.cell_id, q.example_id, q.output_digest) for q in store.quality()}
    rng = random.Random(7)
    for number in range(50):
        folder = tmp_path / str(number)
        _killed_run(plan, folder, rng.uniform(0, 1.2 * duration))
        before = counts(folder) if (folder / FILE_NAME).exists() else (0, 0)
        generated, timed = run(plan, folder)
        assert (before[0] + generated, before[1] + timed) == (15, 16) == counts(folder)
        with Store.open(folder) as store:
            found = {(q.cell_id, q.example_id, q.output_digest) for q in store.quality()}
        assert found == expected


@pytest.fixture
def breaking(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that breaks on sparse prompts."""
    real = FakeEngine._generate

    def generate(self: FakeEngine, prompt: PreparedPrompt, *rest: object, **named: object):
        if prompt.positions is not None:
            raise RuntimeError("out of memory\nwhile allocating")
        return real(self, prompt, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(FakeEngine, "_generate", generate)


@pytest.mark.usefixtures("breaking")
def test_a_failed_cell_does_not_lose_the_others(plan: Plan, tmp_path: Path) -> None:
    """The failed cells carry their reason in one line; the good one is complete."""
    with open_run(plan, tmp_path) as store:
        outcome = execute(plan, store, quiet=True)
        cells = {cell.arm: cell for cell in store.cells()}
    assert len(outcome.failed) == 2
    assert cells["full"].status is CellStatus.DONE
    assert cells["specprefill-k10-lah8"].status is CellStatus.FAILED
    assert cells["specprefill-k10-lah8"].reason == "RuntimeError: out of memory while allocating"


def test_a_resume_tries_only_what_failed(
    plan: Plan, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """After the cause is gone, a resume runs the failed cells and nothing else."""
    request.getfixturevalue("breaking")
    run(plan, tmp_path)
    request.getfixturevalue("monkeypatch").undo()
    assert run(plan, tmp_path) == (10, 16)
    with Store.open(tmp_path) as store:
        assert {str(cell.status) for cell in store.cells()} == {"done"}


@pytest.mark.usefixtures("breaking")
def test_fail_fast_stops(plan: Plan, tmp_path: Path) -> None:
    """With fail_fast the first failure ends the run."""
    with open_run(plan, tmp_path) as store, pytest.raises(RuntimeError):
        execute(plan, store, fail_fast=True, quiet=True)


def test_what_cannot_run_here_is_unsupported(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A method that finds out in the engine that it cannot serve the model did not fail."""
    real = FakeEngine.generate

    def prefill(self, prompts, sampling):
        prompts = list(prompts)
        if any(prompt.positions is not None for prompt in prompts):
            raise UnsupportedError("the draft has another tokenizer")
        return real(self, prompts, sampling)

    monkeypatch.setattr(FakeEngine, "generate", prefill)
    with open_run(plan, tmp_path) as store:
        outcome = execute(plan, store, fail_fast=True, quiet=True)
        cells = {cell.arm: (str(cell.status), cell.reason) for cell in store.cells()}
        rows = summarize(store).to_json()["arms"]
    assert outcome.failed == {}
    assert cells.pop("full") == ("done", None)
    assert set(cells.values()) == {("unsupported", "the draft has another tokenizer")}
    notes = [row["note"] for row in rows if row["method"] != "full"]
    assert all("unsupported: the draft has another tokenizer" in note for note in notes)


def test_an_engine_that_refuses_fails_its_cells(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where full prefill's own engine does not start, no cell can run: they failed."""

    def refuse(*_: object) -> None:
        raise EngineRefusedError("no memory for the KV cache")

    monkeypatch.setattr(FakeEngine, "open", refuse)
    with open_run(plan, tmp_path) as store:
        outcome = execute(plan, store, quiet=True)
    assert set(outcome.failed.values()) == {"no memory for the KV cache"}


@pytest.mark.parametrize("smaller", [{"limit": 4}, {"keep": (0.1,)}])
def test_another_configuration_is_not_mixed_in(
    plan: Plan, tmp_path: Path, smaller: dict[str, object]
) -> None:
    """A plan with no place for what the folder holds is refused, with the option that differs."""
    run(plan, tmp_path)
    other = build_plan(CONFIG.model_copy(update=smaller))
    (name,) = smaller
    with pytest.raises(ConfigError, match=rf"{name} differs"), open_run(other, tmp_path):
        pass
    assert run(plan, tmp_path) == (0, 0)


@pytest.mark.parametrize("option", ["dtype", "preset"])
def test_a_run_grows_in_nothing_that_shapes_its_results(
    plan: Plan, tmp_path: Path, option: str
) -> None:
    """Another model or dtype is another run, also where it asks for more examples."""
    run(plan, tmp_path)
    other = {"dtype": "float32", "preset": "smollm2-padded"}[option]
    bigger = build_plan(CONFIG.model_copy(update={option: other, "limit": 9}))
    with pytest.raises(ConfigError, match=rf"{option}.* differs"), open_run(bigger, tmp_path):
        pass


def test_a_run_grows(plan: Plan, tmp_path: Path) -> None:
    """More examples, keep rates, tasks and seeds: what is there is kept, only the rest is run."""
    run(plan, tmp_path)
    with Store.open(tmp_path) as store:
        first = {(r.cell_id, r.example_id): r for r in store.quality()}
        arms = {cell.cell_id: cell.arm for cell in store.cells()}
    more = CONFIG.model_copy(update={"limit": 8, "latency_samples": 3})
    assert run(build_plan(more), tmp_path) == (3 * 3, 2 * 4)
    wider = more.model_copy(
        update={
            "keep": (0.1, 0.3, 0.5),
            "task": (*CONFIG.task, "ruler_niah_single_2"),
            "seed": (0, 1),
        }
    )
    grown = build_plan(wider)
    # One more arm on 8 examples, and 3 other (task, seed) of 4 arms.
    assert run(grown, tmp_path) == (8 + 3 * 4 * 8, 3 * 4 + 3 * 3 * 3 * 4)
    assert run(grown, tmp_path) == (0, 0)
    with Store.open(tmp_path) as store:
        assert [c.cell_id for c in store.cells()] == [c.record.cell_id for c in grown.cells]
        assert store.run().config["limit"] == 8
        now = {cell.cell_id: (cell.arm, cell.task, cell.seed) for cell in store.cells()}
        later = {(now[r.cell_id], r.example_id): r for r in store.quality()}
    for (cell_id, example_id), record in first.items():
        place = (arms[cell_id], CONFIG.task[0], 0)
        kept = later[place, example_id]
        assert replace(kept, cell_id=cell_id) == record


def test_other_code_is_refused_unless_allowed(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Resuming with other code needs --allow-mixed-code, and the run then names both."""
    run(plan, tmp_path)
    monkeypatch.setattr("harness.run.provenance.commit", lambda: "abc (0123456789ab)")
    with pytest.raises(ConfigError, match="--allow-mixed-code"), open_run(plan, tmp_path):
        pass
    with open_run(plan, tmp_path, allow_mixed_code=True) as store:
        assert len(store.run().commits) == 2


def test_two_writers_are_refused(plan: Plan, tmp_path: Path) -> None:
    """A second process cannot write to the same folder."""
    with (
        open_run(plan, tmp_path),
        pytest.raises(StoreError, match="another process"),
        open_run(plan, tmp_path),
    ):
        pass


def test_a_damaged_store_is_set_aside(plan: Plan, tmp_path: Path) -> None:
    """The damaged file keeps its bytes under another name; the next run starts anew."""
    (tmp_path / FILE_NAME).write_bytes(b"garbage" * 100)
    with pytest.raises(StoreError, match=r"kept as store\.sqlite\.damaged"):
        run(plan, tmp_path)
    (kept,) = tmp_path.glob("store.sqlite.damaged-*")
    assert kept.read_bytes() == b"garbage" * 100
    assert run(plan, tmp_path) == (15, 16)


def test_an_unsupported_arm_is_settled_once(tmp_path: Path) -> None:
    """An arm that supports no example has its reason, no times, and no work left on a resume."""
    text = '{"prompt": "The mill stands by the river.", "answers": ["river"]}\n'
    (tmp_path / "d.jsonl").write_text(text)
    config = CONFIG.model_copy(
        update={"data": str(tmp_path / "d.jsonl"), "arms": {"oracle": {}}, "keep": (0.5,)}
    )
    plan = build_plan(config)
    assert run(plan, tmp_path / "r") == (1, 0)
    with Store.open(tmp_path / "r") as store:
        (cell,) = (cell for cell in store.cells() if cell.method == "oracle")
        assert cell.status is CellStatus.UNSUPPORTED
        assert "evidence" in str(cell.reason)
        assert Outstanding(plan, store).requests == 0


@pytest.mark.parametrize(("safety", "status"), [(1.2, "active"), (6.0, "skipped_break_even")])
def test_the_break_even_guard_uses_measured_rates(
    tmp_path: Path, safety: float, status: str
) -> None:
    """The fake speculator costs a fifth of the target: worth it at 1.2, not at six times that."""
    arm = {"method": "specprefill", "break_even": True, "safety": safety}
    config = CONFIG.model_copy(update={"arms": {"guarded": arm}, "keep": (0.1,), "limit": 1})
    run(build_plan(config), tmp_path)
    with Store.open(tmp_path) as store:
        (cell,) = (cell for cell in store.cells() if cell.method == "specprefill")
        assert {str(q.receipt.status) for q in store.quality(cell.cell_id)} == {status}


def test_a_question_from_a_field_of_the_data(tmp_path: Path) -> None:
    """--query-from gives retrievers a question where the task names none itself."""
    row = {"prompt": "Where is the mill, of all places?", "answers": ["river"]}
    (tmp_path / "d.jsonl").write_text(json.dumps(row) + "\n")
    config = CONFIG.model_copy(
        update={"data": str(tmp_path / "d.jsonl"), "arms": {"random": {}}, "query_from": None}
    )
    doc = build_plan(config).cells[0].examples.examples[0].doc
    (field,) = (name for name, value in doc.items() if value == row["prompt"])
    asked = build_plan(config.model_copy(update={"query_from": field}))
    assert asked.cells[0].examples.examples[0].prompt.query == row["prompt"]
    with pytest.raises(ConfigError, match="--query-from nothing: no text of that name"):
        build_plan(config.model_copy(update={"query_from": "nothing"}))


def test_a_first_look_ends_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Past its minutes each arm has one block of each order; the same command does the rest."""
    monkeypatch.setattr("harness.run.first_look.FIRST_LOOK_S", 0.0)
    plan = build_plan(CONFIG.model_copy(update={"limit": None, "latency_samples": None}))
    with open_run(plan, tmp_path) as store:
        outcome = execute(plan, store)
        orders = sorted({(record.cell_id, record.order) for record in store.latency()})
    assert (outcome.generated, outcome.timed) == (36, 2 * 2 * 4)
    assert [order for _, order in orders] == ["ABBA", "BAAB"] * 2
    assert "the latency blocks that are left" in capsys.readouterr().err
    monkeypatch.undo()
    with open_run(plan, tmp_path) as store:
        outcome = execute(plan, store)
    assert (outcome.generated, outcome.timed) == (0, 2 * 4 * 4)
    assert "that are left" not in capsys.readouterr().err


@pytest.mark.parametrize("given", ["limit", "data"])
def test_a_size_that_was_given_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    """Whoever says how much to run waits for it, however long it takes."""
    monkeypatch.setattr("harness.run.first_look.FIRST_LOOK_S", 0.0)
    rows = [
        {"prompt": f"The mill {n} stands by the river.", "answers": ["river"]} for n in range(7)
    ]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    sizes = {"limit": {"limit": 7}, "data": {"data": str(tmp_path / "d.jsonl"), "limit": None}}
    plan = build_plan(CONFIG.model_copy(update={"latency_samples": None, **sizes[given]}))
    assert run(plan, tmp_path / "r") == (21, 2 * 6 * 4)


def test_orders_alternate_over_a_group(tmp_path: Path) -> None:
    """With one block a task, every other task's runs the other way round."""
    names = tuple(f"ruler_niah_{name}" for name in ("single_1", "single_2", "multikey_1"))
    plan = build_plan(CONFIG.model_copy(update={"task": names, "limit": 1, "latency_samples": 1}))
    run(plan, tmp_path)
    with Store.open(tmp_path) as store:
        tasks = {cell.cell_id: (cell.arm, cell.task) for cell in store.cells()}
        found = {tasks[record.cell_id]: record.order for record in store.latency()}
    for arm in ("specprefill-k10-lah8", "specprefill-k30-lah8"):
        assert [found[arm, name] for name in names] == ["ABBA", "BAAB", "ABBA"]


@pytest.mark.parametrize(
    ("where", "says"), [("positions", "applied no positions"), ("rows", "kept no query rows")]
)
def test_a_cell_without_its_hooks_proof_fails(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, says: str
) -> None:
    """Answers of a target or speculator whose hook did not run are never a method's result."""
    generate, score = FakeEngine._generate, FakeScorer.score
    if where == "positions":
        monkeypatch.setattr(
            FakeEngine, "_generate", lambda *a, **k: replace(generate(*a, **k), counters={})
        )
    else:
        monkeypatch.setattr(
            FakeScorer, "score", lambda *a: (replace(s, counters={}) for s in score(*a))
        )
    with open_run(plan, tmp_path) as store:
        outcome = execute(plan, store, quiet=True)
        failed = {cell.method for cell in store.cells() if str(cell.status) == "failed"}
        assert not [r for r in store.quality() if r.receipt.method == "specprefill"]
    assert failed == {"specprefill"}
    assert outcome.failed
    assert all(says in reason for reason in outcome.failed.values())
