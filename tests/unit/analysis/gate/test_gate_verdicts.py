"""The gate on synthetic runs: every verdict, in its order, and how they add up."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import Arm, Task, build_store

from harness.analysis.gate.baseline import Baseline, load_baseline
from harness.analysis.gate.collect import collect
from harness.analysis.gate.junit import as_junit
from harness.analysis.gate.render import as_markdown, as_text
from harness.analysis.gate.report import GateOptions, run_gate
from harness.analysis.gate.update import update_baseline
from harness.analysis.gate.verdicts import Judgement, Verdict, overall
from harness.errors import ConfigError, NotComparableError
from harness.run.store import Store
from harness.schema.records import CellStatus

T = Task(n=60, full_rate=0.95)


def run_of(folder, **options):
    """A synthetic run as the gate sees it."""
    with Store.open(build_store(folder, **options)) as store:
        return collect(store)


def baseline_of(tmp_path, **options):
    """A baseline file written from a synthetic run, and read again."""
    path = tmp_path / "baseline.json"
    update_baseline(run_of(tmp_path / "old", **options), path, margin=None)
    return load_baseline(path)


def verdict_of(report, arm="specprefill", kind="quality"):
    """The one verdict of an arm."""
    (found,) = [j for j in report.judgements if (j.arm, j.kind) == (arm, kind)]
    return found


def test_a_repeat_is_identical(tmp_path):
    """The same outputs pass as identical, whatever the margin."""
    old = baseline_of(tmp_path, tasks=[T])
    report = run_gate(run_of(tmp_path / "new", tasks=[T], session="s2"), old, GateOptions(1e-6))
    assert verdict_of(report).verdict is Verdict.PASS
    assert verdict_of(report).detail.startswith("identical")
    assert verdict_of(report, "full").verdict is Verdict.PASS
    assert report.exit_code == 0


def test_a_broken_selector_is_a_regression_of_its_arm_only(tmp_path):
    """Most answers lost under one arm: exit 1, and full prefill still passes."""
    old = baseline_of(tmp_path, tasks=[T])
    report = run_gate(run_of(tmp_path / "new", tasks=[T], arms=[Arm(loss=0.8)]), old)
    assert verdict_of(report).verdict is Verdict.REGRESSION
    assert verdict_of(report).p_holm <= 0.05
    assert verdict_of(report, "full").verdict is Verdict.PASS
    assert report.exit_code == 1


def test_full_prefill_is_gated_too(tmp_path):
    """A change that breaks full prefill itself is a regression, not a floor."""
    old = baseline_of(tmp_path, tasks=[T])
    new = run_of(tmp_path / "new", tasks=[T], score=lambda arm, task, i: float(arm != "full"))
    report = run_gate(new, old)
    assert verdict_of(report, "full").verdict is Verdict.REGRESSION
    assert report.exit_code == 1


def test_few_changes_are_inconclusive_with_the_number_needed(tmp_path):
    """One answer of twenty lost is neither shown nor excluded; the advice says how many would."""
    task = Task(n=20)
    old = baseline_of(tmp_path, tasks=[task], score=lambda *_: 1.0)
    new = run_of(tmp_path / "new", tasks=[task], score=lambda arm, t, i: float(i > 0))
    found = verdict_of(run_gate(new, old))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.needed > 20
    assert f"about {found.needed} examples" in found.detail


def test_small_loss_within_the_margin_is_named(tmp_path):
    """A real but tolerated loss passes under its own name."""
    task = Task(n=600)
    old = baseline_of(tmp_path, tasks=[task], score=lambda *_: 1.0)
    new = run_of(tmp_path / "new", tasks=[task], score=lambda arm, t, i: float(i >= 9))
    report = run_gate(new, old, GateOptions(margin=0.05))
    assert verdict_of(report).verdict is Verdict.PASS
    assert verdict_of(report).detail == "small loss within margin 0.05"


def test_improvement_is_never_a_failure(tmp_path):
    """Better scores pass and are called improved in text, JSON and JUnit."""
    old = baseline_of(tmp_path, tasks=[T], arms=[Arm(loss=0.5)])
    report = run_gate(run_of(tmp_path / "new", tasks=[T], arms=[Arm(loss=0)]), old)
    assert verdict_of(report).verdict is Verdict.IMPROVED
    assert verdict_of(report).change > 0.3
    assert (report.verdict, report.exit_code) == (Verdict.PASS, 0)
    for text in (as_text(report), as_markdown(report), as_junit(report)):
        assert "improved" in text
    (cell,) = [c for c in report.to_json()["cells"] if c["verdict"] == "improved"]
    assert (cell["arm"], cell["kind"]) == ("specprefill", "quality")


def test_an_emptied_baseline_is_not_comparable(tmp_path):
    """With every task removed from the baseline nothing is compared: exit 4, never green."""
    old = baseline_of(tmp_path, tasks=[T]).model_copy(update={"cells": ()})
    report = run_gate(run_of(tmp_path / "new", tasks=[T]), old)
    assert report.exit_code == 4
    assert verdict_of(report).verdict is Verdict.NOT_COMPARABLE


def test_pruning_arms_without_a_baseline_are_not_comparable(tmp_path):
    """Full prefill alone in the baseline does not make a run of pruning arms green."""
    old = baseline_of(tmp_path, tasks=[T])
    full_only = tuple(cell for cell in old.cells if cell.reference)
    report = run_gate(
        run_of(tmp_path / "new", tasks=[T]), old.model_copy(update={"cells": full_only})
    )
    assert verdict_of(report, "full").verdict is Verdict.PASS
    assert verdict_of(report).verdict is Verdict.NOT_COMPARABLE
    assert report.exit_code == 4


def test_a_scoring_change_is_judged_although_outputs_are_equal(tmp_path):
    """Equal outputs with lower scores are no identity: the scorer may be what broke."""
    same = {"tasks": [T], "output": lambda *_: "42"}
    old = baseline_of(tmp_path, **same, score=lambda *_: 1.0)
    path = tmp_path / "baseline.json"
    raw = json.loads(path.read_text())
    new = run_of(tmp_path / "new", **same, score=lambda *_: 0.0)
    digests = {e["output"] for c in raw["cells"] for e in c["examples"]}
    forged = new.model_dump(mode="json")
    for cell in forged["cells"]:
        for example in cell["examples"]:
            example["output"] = next(iter(digests))
    report = run_gate(Baseline.model_validate(forged), old)
    assert verdict_of(report).verdict is Verdict.REGRESSION


@pytest.mark.parametrize("clusters", [1, 4])
def test_too_few_clusters_are_inconclusive(tmp_path, clusters):
    """Below five clusters nothing is concluded, unless every output is equal."""
    task = Task(n=2 * clusters, cluster_size=2)
    old = baseline_of(tmp_path, tasks=[task], score=lambda *_: 1.0)
    report = run_gate(run_of(tmp_path / "new", tasks=[task], score=lambda *_: 0.0), old)
    assert verdict_of(report).verdict is Verdict.INCONCLUSIVE
    assert "an interval needs 5" in verdict_of(report).detail


def test_floor_tasks_are_shown_and_not_judged(tmp_path):
    """Where the baseline's full prefill scores near chance, nothing is judged: exit 3."""
    task = Task(n=60, full_rate=0.05)
    old = baseline_of(tmp_path, tasks=[task])
    report = run_gate(run_of(tmp_path / "new", tasks=[task], score=lambda *_: 0.0), old)
    assert {j.verdict for j in report.judgements if j.kind == "quality"} == {Verdict.FLOOR}
    assert report.exit_code == 3


def test_missing_examples_are_not_comparable(tmp_path):
    """Fewer or other examples than the baseline's are named, never dropped."""
    old = baseline_of(tmp_path, tasks=[Task(n=20)])
    for number, task in enumerate([Task(n=19), Task(n=21), Task(n=20, seeds=(5,))]):
        report = run_gate(run_of(tmp_path / f"new{number}", tasks=[task]), old)
        assert report.exit_code == 4
        assert "ruler_niah_single_1/2048/" in verdict_of(report).detail


def test_missing_arms_are_not_comparable_and_new_ones_are_noted(tmp_path):
    """An arm the run lacks stops the gate; one the baseline lacks is only shown."""
    old = baseline_of(tmp_path, tasks=[T], arms=[Arm(), Arm("rag", method="rag")])
    new = run_of(tmp_path / "new", tasks=[T], arms=[Arm(), Arm("random", method="random")])
    report = run_gate(new, old)
    assert verdict_of(report, "rag").verdict is Verdict.NOT_COMPARABLE
    assert verdict_of(report, "random").verdict is Verdict.NEW
    assert report.exit_code == 4


def test_an_unscored_example_of_the_run_is_named(tmp_path):
    """A candidate example without a score makes its arm not comparable."""
    old = baseline_of(tmp_path, tasks=[T])
    new = run_of(tmp_path / "new", tasks=[T], score=lambda arm, t, i: None if i == 7 else 1.0)
    report = run_gate(new, old)
    assert report.exit_code == 4
    assert "the run's score of example ruler_niah_single_1/2048/0/7 is missing" in (
        verdict_of(report).detail
    )


def test_a_cell_the_run_did_not_finish_says_why(tmp_path):
    """A failed or unsupported cell is not comparable, with its own reason."""
    old = baseline_of(tmp_path, tasks=[T])
    arm = Arm(cell_status=CellStatus.UNSUPPORTED, reason="needs CUDA")
    report = run_gate(run_of(tmp_path / "new", tasks=[T], arms=[arm]), old)
    assert report.exit_code == 4
    assert "unsupported: needs CUDA" in verdict_of(report).detail


def test_an_empty_run_is_not_comparable(tmp_path):
    """A run stopped before its first record: exit 4, not a pass."""
    old = baseline_of(tmp_path, tasks=[T])
    folder = build_store(tmp_path / "new", tasks=[T])
    with Store.resume(folder) as store:
        for table in ("quality", "latency", "examples"):
            store._db.execute(f"DELETE FROM {table}")
        store._db.commit()
        report = run_gate(collect(store), old)
    assert report.exit_code == 4
    assert "60 of the baseline's 60 examples are missing" in verdict_of(report).detail


def test_machine_classes_are_not_mixed_silently(tmp_path):
    """Another machine class is refused; asked for, scores are compared and TTFT is left out."""
    old = baseline_of(tmp_path, tasks=[T])
    new = run_of(tmp_path / "new", tasks=[T], machine_class="1x NVIDIA H200")
    with pytest.raises(NotComparableError, match="1x NVIDIA H200"):
        run_gate(new, old)
    report = run_gate(new, old, GateOptions(any_machine=True))
    assert report.exit_code == 0
    assert {j.kind for j in report.judgements} == {"quality"}


def test_changed_options_are_noted(tmp_path):
    """An overridden option keeps the arm's name; the report says what differs."""
    old = baseline_of(tmp_path, tasks=[T])
    new = run_of(tmp_path / "new", tasks=[T], arms=[Arm(options={"order": "lowest"})])
    assert "order: None → lowest" in run_gate(new, old).notes[0]


def test_ttft_is_judged_by_the_ratio_to_full_prefill(tmp_path):
    """A machine half as fast passes; an arm half as fast relative to full is a regression."""
    old = baseline_of(tmp_path, tasks=[T], blocks=12)
    slow = run_of(tmp_path / "slow", tasks=[T], blocks=12, full_ttft_s=4.0, session="s2")
    assert verdict_of(run_gate(slow, old), kind="ttft").verdict is Verdict.PASS
    worse = run_of(tmp_path / "w", tasks=[T], blocks=12, arms=[Arm(speed_up=1.5)], session="s2")
    found = run_gate(worse, old)
    assert verdict_of(found, kind="ttft").verdict is Verdict.REGRESSION
    assert verdict_of(found, kind="ttft").change == pytest.approx(1.0, rel=0.1)
    assert found.exit_code == 1
    assert run_gate(worse, old, GateOptions(ttft=False)).exit_code == 0


def test_full_prefill_seconds_need_one_session(tmp_path):
    """Full prefill's own slow-down is judged within one session, and only there."""
    old = baseline_of(tmp_path, tasks=[T], blocks=12)
    for session, verdict in (("s2", Verdict.NOT_MEASURED), ("session-1", Verdict.REGRESSION)):
        new = run_of(
            tmp_path / session, tasks=[T], blocks=12, seed=0, full_ttft_s=4.0, session=session
        )
        assert verdict_of(run_gate(new, old), "full", "ttft").verdict is verdict


def test_too_few_blocks_are_not_measured_or_inconclusive(tmp_path):
    """A baseline without enough blocks gates no TTFT; a run without them cannot pass it."""
    few, many = {"tasks": [T], "blocks": 2}, {"tasks": [T], "blocks": 8}
    for old, new, verdict in ((few, many, Verdict.NOT_MEASURED), (many, few, Verdict.INCONCLUSIVE)):
        folder = tmp_path / str(verdict)
        report = run_gate(run_of(folder / "new", **new, session="s2"), baseline_of(folder, **old))
        assert verdict_of(report, kind="ttft").verdict is verdict


@pytest.mark.parametrize("margin", [0.0, -0.1, 1.0, float("nan")])
def test_margins_that_are_none_are_refused(margin):
    """A margin is a loss between 0 and 1."""
    with pytest.raises(ConfigError, match="margin"):
        GateOptions(margin=margin)


@given(st.lists(st.sampled_from(list(Verdict)), max_size=8))
def test_the_worst_verdict_decides(verdicts):
    """Not comparable > regression > inconclusive > pass; nothing judged never passes."""
    found = overall([Judgement("quality", "t", None, "a", v, "") for v in verdicts])
    order = [Verdict.NOT_COMPARABLE, Verdict.REGRESSION, Verdict.INCONCLUSIVE, Verdict.PASS]
    named = [Verdict.PASS if v is Verdict.IMPROVED else v for v in verdicts]
    nothing = Verdict.INCONCLUSIVE if Verdict.FLOOR in verdicts else Verdict.NOT_COMPARABLE
    assert found is next((v for v in order if v in named), nothing)
