"""``harness plan``: pilots from runs and baselines, plans from a guess, and what is refused."""

import json

import pytest
from synthetic import Arm, Task, build_store

from harness.analysis.gate.collect import collect
from harness.analysis.power import (
    Aim,
    as_text,
    pilots_of_baseline,
    pilots_of_run,
    plan_from_spread,
    plan_rows,
)
from harness.errors import ConfigError, DataError, NotComparableError
from harness.run.store import Store


def pilots(folder, **options):
    """Pilots of a synthetic run."""
    with Store.open(build_store(folder / "run", **options)) as store:
        return pilots_of_run(store)


def test_a_pilot_without_changes_needs_about_140(tmp_path):
    """Nothing changes: 0.02 still needs about 140 examples, and a small pilot says less."""
    (row,) = plan_rows(pilots(tmp_path, arms=[Arm(loss=0.0)]), Aim())
    assert row.needed == pytest.approx(140, abs=3)
    assert row.needed_cautious > 5 * row.needed
    assert (row.sd, row.design_effect) == (0.0, None)


def test_a_true_loss_leaves_less_room(tmp_path):
    """With half of the margin lost in truth, the plan is that of half the margin."""
    found = pilots(tmp_path)
    (lost,), (half,) = plan_rows(found, Aim(0.1, true_loss=0.05)), plan_rows(found, Aim(0.05))
    assert lost.needed_cautious == half.needed_cautious
    assert lost.resolvable == pytest.approx(half.resolvable + 0.05)
    with pytest.raises(ConfigError, match="true-loss"):
        Aim(0.05, true_loss=0.05)


def test_a_calibration_needs_both_halves(tmp_path):
    """Choosing and confirming at one-sided 5 %, both within the power promised."""
    (row,) = plan_rows(pilots(tmp_path), Aim(0.1))
    assert row.needed_cautious < row.needed_calibration < 3 * row.needed_cautious
    assert row.needed_calibration % 2 == 0


def test_the_text_leads_with_the_cautious_figure(tmp_path):
    """The promised n stands under the margin; the optimistic one is called what it is."""
    rows = plan_rows(pilots(tmp_path), Aim(0.1))
    head, line = as_text(rows, Aim(0.1)).splitlines()[:2]
    assert head.index("n for 0.1") < head.index("as the pilot") < head.index("to calibrate")
    figures = line.split()
    assert figures.index(str(rows[0].needed_cautious)) < figures.index(str(rows[0].needed))


def test_pooled_rows_come_first(tmp_path):
    """A group of two tasks is planned as a whole, then task by task; a floor task is not."""
    tasks = [Task("ta", n=40), Task("tb", n=40), Task("tc", n=40, full_rate=0.0)]
    rows = plan_rows(pilots(tmp_path, tasks=tasks, arms=[Arm(loss=0.2)]), Aim(0.1, n=300))
    assert [(row.task, row.pilot_n) for row in rows] == [
        ("ruler (pooled)", 80), ("ta", 40), ("tb", 40),
    ]  # fmt: skip
    assert all(row.n == 300 and 0 < row.resolvable < 0.2 for row in rows)


def test_too_small_a_pilot_gives_the_reason(tmp_path):
    """Fewer than five contexts: no plan, and the reason is printed."""
    rows = plan_rows(pilots(tmp_path, tasks=[Task(n=4)]), Aim())
    assert rows[0].needed is None
    assert "an interval needs 5" in as_text(rows, Aim())


def test_a_baseline_plans_the_gate(tmp_path):
    """Run − baseline is the spread that the gate meets: equal runs change nothing."""
    with Store.open(build_store(tmp_path / "a")) as a, Store.open(build_store(tmp_path / "b")) as b:
        rows = plan_rows(pilots_of_baseline(collect(b), collect(a)), Aim(0.1))
    assert {(row.arm, row.mean, row.sd) for row in rows} == {
        ("full", 0.0, 0.0), ("specprefill", 0.0, 0.0),
    }  # fmt: skip
    other = build_store(tmp_path / "c", tasks=[Task(seeds=(9,))])
    with Store.open(other) as c, Store.open(tmp_path / "a") as a, pytest.raises(NotComparableError):
        pilots_of_baseline(collect(c), collect(a))


def test_a_guess_plans_without_a_pilot():
    """A spread of 0.3 needs many more examples than none; clusters need more still."""
    alone = plan_from_spread(0.3, 1.0, Aim())
    assert alone.needed > 1_000
    assert plan_from_spread(0.3, 5.0, Aim()).needed > 4 * alone.needed
    json.dumps(alone.to_json(), allow_nan=False)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Aim(margin=0),
        lambda: Aim(margin=float("nan")),
        lambda: Aim(power=1.0),
        lambda: Aim(n=0),
        lambda: plan_from_spread(2.0, 1.0, Aim()),
        lambda: plan_from_spread(0.1, 0.5, Aim()),
    ],
)
def test_bad_numbers_are_refused(make):
    """Margins, powers and spreads outside their range are one line."""
    with pytest.raises(ConfigError):
        make()


def test_runs_without_comparisons_are_refused(tmp_path):
    """No reference, or a missing score: one line, no plan."""
    with pytest.raises(ConfigError, match="no arm to compare"):
        pilots(tmp_path / "a", reference=False)
    with pytest.raises(DataError, match="/2 has no score"):
        pilots(tmp_path / "b", score=lambda arm, task, i: None if i == 2 else 1.0)
