"""The run summary: rows, pairing, missing values, and strict JSON."""

import json

import pytest
from synthetic import Arm, Task, build_store

from harness.analysis.summary import summarize
from harness.errors import StoreError
from harness.run.store import Store
from harness.schema.receipts import Status
from harness.schema.records import CellStatus

CONTRACT = {
    "arm", "method", "task", "length", "seed", "look_ahead", "keep_requested", "keep_achieved",
    "n", "score", "delta", "ttft_s", "ttft_speedup", "stages_s", "status",
}  # fmt: skip


def rows_of(folder, **options):
    """Summary rows, as JSON, of a synthetic run."""
    with Store.open(build_store(folder / "run", **options)) as store:
        return json.loads(summarize(store).dumps())["arms"]


def only(rows, **wanted):
    """The one row with these fields."""
    (row,) = [r for r in rows if all(r[k] == v for k, v in wanted.items())]
    return row


def test_rows_carry_the_contract(tmp_path):
    """One task: two rows, no pooled one, with every field that ``--json`` promises."""
    rows = rows_of(tmp_path)
    assert [r["arm"] for r in rows] == ["full", "specprefill"]
    full, arm = rows
    assert set(full) >= CONTRACT
    assert full["delta"] is None
    assert full["ttft_speedup"] is None
    assert full["status"] == {"kept_all": 20}
    assert arm["n"] == 20
    assert arm["keep_achieved"] == pytest.approx(0.109375)
    assert set(arm["delta"]) >= {"mean", "low", "high"}
    assert arm["ttft_speedup"]["ratio"] == pytest.approx(3.0, rel=0.05)
    assert arm["ttft_speedup"]["low"] < 3.0 < arm["ttft_speedup"]["high"]
    assert arm["ttft_s"]["median"] == pytest.approx(2 / 3, rel=0.2)
    assert set(arm["stages_s"]) == {"score", "select", "prefill", "other"}


def test_pooled_rows_lead_and_pool_every_example(tmp_path):
    """Two tasks of a group: pooled rows stand first, and their mean is over all examples."""
    rows = rows_of(tmp_path, tasks=[Task("ruler_a", n=10), Task("ruler_b", n=30)])
    assert [r["pooled"] for r in rows] == [True, True] + [False] * 4
    pooled, a, b = (only(rows, arm="specprefill", task=t) for t in ("ruler", "ruler_a", "ruler_b"))
    assert pooled["n"] == 40
    assert pooled["tasks"] == ["ruler_a", "ruler_b"]
    expected = (10 * a["delta"]["mean"] + 30 * b["delta"]["mean"]) / 40
    assert pooled["delta"]["mean"] == pytest.approx(expected)
    assert "too few to conclude" in pooled["note"]


def test_lengths_are_never_pooled(tmp_path):
    """The same task at two lengths gives rows of their own, and no pooled row."""
    rows = rows_of(tmp_path, tasks=[Task(length=1024), Task(length=2048)])
    assert [r["length"] for r in rows] == [1024, 1024, 2048, 2048]
    assert not any(r["pooled"] for r in rows)


def test_natural_lengths_are_timed_by_band(tmp_path):
    """Prompts of natural length in one band give the band's speed-up, named."""
    arm = only(rows_of(tmp_path, tasks=[Task(length=None)]), arm="specprefill")
    assert list(arm["ttft_by_length"]) == ["128–255"]
    assert arm["ttft_speedup"] == arm["ttft_by_length"]["128–255"]


def test_floor_tasks_are_marked_and_the_pool_stands_without_them_beside(tmp_path):
    """A task that full prefill cannot do is in the headline, named; beside it the others alone."""
    rows = rows_of(tmp_path, tasks=[Task("ruler_a"), Task("ruler_b"), Task("ruler_c", full_rate=0)])
    assert only(rows, arm="specprefill", task="ruler_c")["floor"] is True
    assert only(rows, arm="specprefill", task="ruler_c")["delta"]["p_holm"] is None
    pooled = only(rows, arm="specprefill", task="ruler")
    a, b = (only(rows, arm="specprefill", task=f"ruler_{t}") for t in "ab")
    assert (pooled["n"], pooled["floor"]) == (60, False)
    assert pooled["score"]["mean"] == pytest.approx((a["score"]["mean"] + b["score"]["mean"]) / 3)
    assert "1 floor task among the 3: ruler_c" in pooled["note"]
    beside = pooled["without_floor"]
    assert (beside["n"], beside["left_out"]) == (40, ["ruler_c"])
    assert beside["score"]["mean"] == pytest.approx(pooled["score"]["mean"] * 3 / 2)
    assert beside["delta"]["mean"] == pytest.approx(pooled["delta"]["mean"] * 3 / 2)


def test_a_group_of_floor_tasks_is_floor(tmp_path):
    """Where the model can do none of a group, its pool is marked, and nothing stands beside."""
    rows = rows_of(tmp_path, tasks=[Task("ruler_a", full_rate=0), Task("ruler_b", full_rate=0)])
    pooled = only(rows, arm="specprefill", task="ruler")
    assert pooled["floor"] is True
    assert pooled["without_floor"] is None
    assert not pooled["undecided"]


def test_a_pool_without_one_of_its_tasks_is_none(tmp_path):
    """An arm that failed on a task has no pooled score: over the others it would be another."""
    folder = build_store(tmp_path / "run", tasks=[Task("ruler_a"), Task("ruler_b")])
    with Store.resume(folder) as store:
        broken = next(c for c in store.cells() if c.task == "ruler_b" and c.method != "full")
        store.set_cell_status(broken.cell_id, CellStatus.FAILED, "out of memory")
        rows = json.loads(summarize(store).dumps())["arms"]
    pooled = only(rows, arm="specprefill", task="ruler")
    assert pooled["score"]["mean"] is None
    assert pooled["score"]["reason"] == pooled["delta"]["reason"] == "no result on ruler_b"
    assert only(rows, arm="full", task="ruler")["score"]["mean"] is not None


def test_arms_are_told_apart_by_their_facts(tmp_path):
    """Two arms of a user whose names end alike stay two rows and two curves."""
    arms = [
        Arm(f"{name}-k10", keep=0.1, given=name) for name in ("my-k2-arm", "my-k4-arm", "my-m0")
    ]
    rows = rows_of(tmp_path, arms=arms)
    assert [r["arm"] for r in rows[1:]] == ["my-k2-arm-k10", "my-k4-arm-k10", "my-m0-k10"]
    assert [r["series"] for r in rows[1:]] == ["my-k2-arm", "my-k4-arm", "my-m0"]


def test_deltas_pair_by_example(tmp_path):
    """An arm that is right exactly where full is wrong differs, though the means agree."""

    def score(arm, task, index):
        return float((index % 2 == 0) == (arm == "full"))

    arm = only(rows_of(tmp_path, score=score), arm="specprefill")
    assert arm["delta"]["mean"] == 0
    assert arm["delta"]["mcnemar"] == {"gained": 10, "lost": 10, "mid_p": pytest.approx(1)}
    assert arm["delta"]["high"] - arm["delta"]["low"] > 0.9


def test_clusters_suppress_mcnemar_and_are_counted(tmp_path):
    """Shared context: clusters are the sample, and McNemar is not shown."""
    arm = only(rows_of(tmp_path, tasks=[Task(cluster_size=2)]), arm="specprefill")
    assert arm["delta"]["clusters"] == 10
    assert arm["delta"]["mcnemar"] is None


def test_selector_seeds_are_averaged_before_anything_else(tmp_path):
    """Three selector seeds make one row of n examples, with the variance split."""
    arm = Arm("random-k10", method="random", loss=0.5, method_seeds=(0, 1, 2))
    row = only(rows_of(tmp_path, arms=[arm]), arm="random-k10")
    assert row["n"] == 20
    assert row["status"] == {"active": 60}
    assert row["deterministic"] is False
    assert row["variance"]["seeds"] > 0
    assert row["ttft_speedup"]["blocks"] == 8


def test_seeds_that_change_nothing_are_deterministic(tmp_path):
    """Repetitions with equal scores say so, instead of a spurious spread."""
    row = only(rows_of(tmp_path, arms=[Arm(loss=0, method_seeds=(0, 1))]), arm="specprefill")
    assert row["deterministic"] is True
    assert row["variance"]["seeds"] == 0


def test_data_seeds_make_new_examples(tmp_path):
    """Two data seeds are pooled as 40 examples, and shown apart below."""
    rows = rows_of(tmp_path, tasks=[Task(seeds=(0, 1))])
    mine = [r for r in rows if r["arm"] == "specprefill"]
    assert [(r["level"], r["seed"], r["n"]) for r in mine] == [
        ("task", None, 40), ("seed", 0, 20), ("seed", 1, 20),
    ]  # fmt: skip
    assert mine[0]["seeds"] == [0, 1]


def test_a_missing_score_is_neither_zero_nor_dropped(tmp_path):
    """One unscored example: no mean, but its bounds and the example's name."""
    rows = rows_of(tmp_path, score=lambda arm, task, i: None if (arm, i) == ("full", 3) else 1.0)
    full, arm = rows
    assert full["score"]["mean"] is None
    assert "1 of 20 examples have no score" in full["score"]["reason"]
    assert "/3 (made up: no answer)" in full["score"]["reason"]
    assert "between 0.950 and 1.000" in full["score"]["reason"]
    assert arm["score"]["mean"] == 1
    assert arm["delta"]["mean"] is None
    assert "/3" in arm["delta"]["reason"]


def test_unsupported_and_failed_cells_are_rows(tmp_path):
    """A cell that cannot run appears with its reason, and no figure."""
    arm = Arm(cell_status=CellStatus.UNSUPPORTED, reason="needs CUDA")
    row = only(rows_of(tmp_path, arms=[arm]), arm="specprefill")
    assert (row["n"], row["score"]["mean"], row["delta"]["mean"]) == (0, None, None)
    assert row["score"]["reason"] == "needs CUDA"
    assert row["note"] == "unsupported: needs CUDA"


def test_few_blocks_and_few_clusters_say_why(tmp_path):
    """Small runs print figures without intervals, each with its reason."""
    row = only(rows_of(tmp_path, tasks=[Task(n=2)], blocks=2), arm="specprefill")
    assert row["delta"]["low"] is None
    assert "an interval needs 5" in row["delta"]["reason"]
    assert row["ttft_speedup"]["low"] is None
    assert "an interval needs 6" in row["ttft_speedup"]["reason"]
    assert "too few to conclude" in row["note"]


def test_an_order_effect_invalidates_the_speed_up(tmp_path):
    """Where who goes first decides TTFT, there is no speed-up, and the reason says so."""
    row = only(rows_of(tmp_path, order_effect=1.0), arm="specprefill")
    assert row["ttft_speedup"]["ratio"] is None
    assert "who goes first" in row["ttft_speedup"]["reason"]


def test_silent_timings_are_noted(tmp_path):
    """Timed requests that fell back (half of 16) are counted in the note."""
    arm = Arm(statuses=(Status.ACTIVE, Status.SKIPPED_BREAK_EVEN))
    row = only(rows_of(tmp_path, arms=[arm]), arm="specprefill")
    assert row["status"] == {"active": 10, "skipped_break_even": 10}
    assert "8 skipped_break_even" in row["note"]


def test_without_a_reference_there_is_no_delta(tmp_path):
    """``--no-reference``: scores and medians stand, nothing is compared."""
    rows = rows_of(tmp_path, reference=False)
    assert [(r["arm"], r["delta"]) for r in rows] == [("specprefill", None)]


def test_an_interrupted_run_says_what_is_missing(tmp_path):
    """Examples not run yet are counted as missing work, not as scores."""
    folder = build_store(tmp_path / "run")
    with Store.resume(folder) as store:
        store._db.execute("DELETE FROM quality WHERE rowid > 25")
        store._db.commit()
        rows = json.loads(summarize(store).dumps())["arms"]
    arm = only(rows, arm="specprefill")
    assert arm["n"] == 5
    assert "incomplete: 5 of 20 examples" in arm["note"]


def test_an_empty_run_has_rows_without_figures(tmp_path):
    """A run stopped before its first example is summarized, with nulls and reasons."""
    folder = build_store(tmp_path / "run")
    with Store.resume(folder) as store:
        for table in ("quality", "latency", "examples"):
            store._db.execute(f"DELETE FROM {table}")
        store._db.commit()
        rows = json.loads(summarize(store).dumps())["arms"]
    assert [r["n"] for r in rows] == [0, 0]
    assert rows[0]["score"]["reason"] == "no finished examples"
    assert rows[1]["ttft_s"]["median"] is None


def test_scores_outside_the_range_are_refused(tmp_path):
    """A metric in per cent is an error that names the example, not a mean of 87."""
    with pytest.raises(StoreError, match="outside \\[0, 1\\]"):
        rows_of(tmp_path, score=lambda arm, task, i: 87.0)


def test_equal_stores_give_equal_bytes(tmp_path):
    """The same records summarize to the same JSON, byte for byte."""
    texts = []
    for name in ("a", "b"):
        folder = build_store(tmp_path / name, tasks=[Task(seeds=(0, 1)), Task("t2")])
        with Store.open(folder) as store:
            texts.append(summarize(store).dumps().replace(str(folder), "RUN"))
    assert texts[0] == texts[1]


def test_bca_is_for_display_only(tmp_path):
    """Asked for, bootstrap intervals are shown, seeded; p-values and remarks stay."""
    folder = build_store(tmp_path / "run", tasks=[Task(n=60)], arms=[Arm(loss=0.3)])
    with Store.open(folder) as store:
        plain, bca, again = (
            only(summarize(store, bca_seed=seed).to_json()["arms"], arm="specprefill")
            for seed in (None, 5, 5)
        )
    assert bca == again
    assert bca["delta"]["low"] != plain["delta"]["low"]
    assert bca["delta"]["mean"] == plain["delta"]["mean"]
    assert (bca["delta"]["p"], bca["note"]) == (plain["delta"]["p"], plain["note"])


def test_the_kernel_behind_the_seconds_is_said(tmp_path):
    """A method that names its kernel has it beside its median; others have none."""
    arms = [Arm(), Arm("minference", "minference", kernel="reference kernel")]
    tasks = [Task("ruler_a"), Task("ruler_b")]
    rows = rows_of(tmp_path, arms=arms, tasks=tasks)
    kernels = {(r["arm"], r["level"]): r["ttft_s"]["kernel"] for r in rows}
    assert kernels["minference", "task"] == kernels["minference", "group"] == "reference kernel"
    assert kernels["specprefill", "task"] is kernels["full", "task"] is None


def test_acceptance_stands_beside_the_true_score(tmp_path):
    """A verifier's acceptance is called a proxy, with the cosine of shuffled pairs."""
    details = {"acceptance_rate": 0.9, "mean_cosine": 0.97, "shuffled_cosine": 0.31}
    arms = [
        Arm("draft_verify", "draft_verify", None, budget_kind="adaptive", details=details),
        Arm("mass", keep=None, budget_kind="adaptive"),
    ]
    rows = rows_of(tmp_path, arms=arms)
    note = only(rows, arm="draft_verify")["note"]
    assert "90% of the chunks accepted, a proxy" in note
    assert "cosine 0.97, of shuffled pairs 0.31" in note
    assert "accepted" not in (only(rows, arm="mass")["note"] or "")
