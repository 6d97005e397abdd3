"""Calibration: the split, the fixed sequence, the one look at the held-out half."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import Arm, Task, build_store

from harness.analysis.calibrate.choose import Goal, calibrate
from harness.analysis.calibrate.keep_rates import KeepRate, KeepRates, read_keep_rates
from harness.analysis.calibrate.render import as_text, to_json
from harness.analysis.calibrate.split import calibration_half
from harness.analysis.summary.cells import PooledCell
from harness.analysis.summary.differences import Differences
from harness.errors import ConfigError, DataError, ExitCode
from harness.run.store import Store
from harness.schema.records import CellStatus

KEEPS = [(0.1, 0.3, 4.0), (0.3, 0.0, 2.5), (0.5, 0.0, 1.8), (0.7, 0.0, 1.2)]
"""Keep, loss and speed-up of the synthetic arms: below 0.3 the quality breaks."""


def arms(rates=KEEPS):
    """One arm at several keep rates, named as the planner names them."""
    return [
        Arm(f"specprefill-k{keep * 100:g}-lah8", keep=keep, loss=loss, speed_up=speed_up)
        for keep, loss, speed_up in rates
    ]


def rates_of(folder, arm=None, only=None, length=None, **options):
    """The keep rates of a synthetic run."""
    made = {"tasks": [Task(n=160, full_rate=1.0)], "arms": arms(), "blocks": 24, **options}
    with Store.open(build_store(folder / "run", **made)) as store:
        return read_keep_rates(store, arm, only, length)


def test_the_lowest_rate_that_keeps_the_margin_is_chosen(tmp_path):
    """From high to low up to the first failure; the report is of held-out examples only."""
    found = calibrate(rates_of(tmp_path), Goal(margin=0.1))
    assert [step.keep for step in found.steps] == [0.7, 0.5, 0.3, 0.1]
    assert found.chosen == 0.3
    assert found.confirmed is True
    assert found.exit_code is ExitCode.PASS
    assert found.held_out.quality.n == 80
    assert found.clusters == (80, 80)


def test_the_first_failure_stops_the_sequence(tmp_path):
    """A rate that passes below one that failed is never looked at."""
    broken = [(0.1, 0.0, 4.0), (0.3, 0.0, 2.5), (0.5, 0.5, 1.8), (0.7, 0.0, 1.2)]
    found = calibrate(rates_of(tmp_path, arms=arms(broken)), Goal(margin=0.1))
    assert [step.keep for step in found.steps] == [0.7, 0.5]
    assert found.chosen == 0.7
    assert "2 more keep rates were not looked at" in as_text(found)


def test_a_ttft_goal_is_tested_from_the_fastest(tmp_path):
    """For a speed-up alone the highest rate that still reaches it is chosen."""
    found = calibrate(rates_of(tmp_path), Goal(speed_up=2.0))
    assert [step.keep for step in found.steps] == [0.1, 0.3, 0.5]
    assert found.chosen == 0.3
    assert found.confirmed is True
    seconds = calibrate(rates_of(tmp_path / "s"), Goal(ttft_s=1.0))
    assert seconds.chosen == 0.3
    assert to_json(seconds)["held_out"]["ttft_s"]["estimate"] == pytest.approx(0.8, rel=0.15)


def test_a_held_out_failure_is_reported_and_not_retuned(tmp_path):
    """Fine on one half, broken on the other: the choice stays, the exit code tells."""
    task = Task(n=160, full_rate=1.0)
    names = {(task.name, f"{task.name}/0/{i}") for i in range(task.n)}
    half = calibration_half(names, 0)

    def score(arm, task_name, index):
        broken = arm != "full" and f"{task_name}/0/{index}" not in half
        return float(not broken or index % 2 == 0)

    found = calibrate(rates_of(tmp_path, tasks=[task], score=score), Goal(margin=0.1))
    assert found.chosen == 0.1
    assert found.confirmed is False
    assert found.exit_code is ExitCode.REGRESSION
    assert "NOT confirmed; reported, not retuned" in as_text(found)


def test_nothing_chosen_is_inconclusive(tmp_path):
    """Where no rate passes there is no held-out look, and the exit code is 3."""
    found = calibrate(rates_of(tmp_path), Goal(margin=0.001))
    assert (found.chosen, found.held_out, found.confirmed) == (None, None, None)
    assert found.exit_code is ExitCode.INCONCLUSIVE
    assert "no keep rate meets the goal" in as_text(found)


def test_every_task_may_have_to_hold(tmp_path):
    """A loss on one task hides in the mean, unless every task must keep the margin."""

    def score(arm, task, index):
        return float(not (arm != "full" and task == "tb" and index % 10 == 0))

    made = {"tasks": [Task("ta", n=160), Task("tb", n=160)], "score": score}
    mean = calibrate(rates_of(tmp_path / "m", **made), Goal(margin=0.12))
    each = calibrate(rates_of(tmp_path / "e", **made), Goal(margin=0.12, every_task=True))
    assert mean.chosen == 0.1
    assert each.chosen is None
    assert set(mean.held_out.by_task) == {"ta", "tb"}


def test_floor_tasks_are_left_out_by_name(tmp_path):
    """A task that full prefill cannot do takes no part, and is listed."""
    made = {"tasks": [Task("ta", n=160), Task("tb", n=40, full_rate=0.0)]}
    found = calibrate(rates_of(tmp_path, **made), Goal(margin=0.1))
    assert found.rates.floors == ("tb",)
    assert set(found.held_out.by_task) == {"ta"}
    with pytest.raises(ConfigError, match="floor"):
        rates_of(tmp_path / "f", tasks=[Task("tb", n=40, full_rate=0.0)])


def test_choices_are_asked_for(tmp_path):
    """Several lengths, arms or an unknown task: one line that lists what there is."""
    two = {"tasks": [Task(length=1024), Task(length=2048)]}
    with pytest.raises(ConfigError, match="--length: the run has 1024, 2048"):
        rates_of(tmp_path / "a", **two)
    assert rates_of(tmp_path / "b", length=1024, **two).length == 1024
    both = [*arms(), Arm("rag-k10", method="rag")]
    with pytest.raises(ConfigError, match="--arm: the run has specprefill-lah8, rag"):
        rates_of(tmp_path / "c", arms=both)
    assert rates_of(tmp_path / "d", arm="rag", arms=both).name == "rag"
    with pytest.raises(ConfigError, match="no results of task 'x'"):
        rates_of(tmp_path / "e", only=["x"])


@pytest.mark.parametrize(
    "goal",
    [
        {}, {"margin": 0}, {"margin": float("nan")}, {"speed_up": -1.0},
        {"speed_up": 2.0, "ttft_s": 1.0}, {"ttft_s": float("inf")},
    ],
)  # fmt: skip
def test_goals_that_are_none_are_refused(goal):
    """A calibration needs a goal that means something."""
    with pytest.raises(ConfigError):
        Goal(**goal)


def test_incomplete_runs_are_refused(tmp_path):
    """A missing score stops the calibration with the example's name; failed cells are skipped."""

    def score(arm, task, index):
        return None if arm == "specprefill-k10-lah8" and index == 3 else 1.0

    with pytest.raises(DataError, match="/3 has no score"):
        rates_of(tmp_path / "a", score=score)
    failed = [*arms()[1:], Arm("specprefill-k10-lah8", cell_status=CellStatus.FAILED)]
    assert [r.keep for r in rates_of(tmp_path / "b", arms=failed).rates] == [0.7, 0.5, 0.3]


def test_output_is_strict_json_without_calibration_figures(tmp_path):
    """Figures to quote come from the held-out half; steps carry tests only."""
    raw = to_json(calibrate(rates_of(tmp_path), Goal(margin=0.1)))
    json.dumps(raw, allow_nan=False)
    assert "delta" not in raw["steps"][0]
    assert raw["held_out"]["delta"]["n"] == 80


@given(st.sets(st.tuples(st.sampled_from("ab"), st.text(max_size=4)), max_size=60), st.integers())
def test_the_split_is_balanced_and_by_context(pairs, seed):
    """Halves differ by at most one context a task, and depend on the seed and names only."""
    half = calibration_half(pairs, seed)
    assert half == calibration_half(list(pairs)[::-1], seed)
    everything = {cluster for _, cluster in pairs}
    assert half <= everything
    assert abs(2 * len(half) - len(everything)) <= 2


def test_another_seed_gives_another_split():
    """The seed matters: otherwise the split would be anybody's choice."""
    pairs = [("t", f"c{i}") for i in range(40)]
    assert calibration_half(pairs, 0) != calibration_half(pairs, 1)


@pytest.mark.parametrize(("gain", "loss", "bound"), [(0.05, 0.15, 0.07), (0.0, 0.1, 0.10)])
def test_a_bad_rate_is_rarely_chosen(cell, gain, loss, bound):
    """With a true loss of the margin at every rate, a rate is chosen about as often as 5 %.

    Three rates, so three chances but for the sequence's stop. Where answers only ever turn
    wrong, 40 of them are too coarse for 5 %: the bound there is what the test really keeps.
    """
    rng = np.random.default_rng(53)
    chosen = 0
    for _ in range(2_000):
        draws = rng.random((3, 80))
        rates = tuple(
            KeepRate(
                keep, keep, (cell(keep, 1.0 * (u < gain) - 1.0 * (u > 1 - loss)),), _no_blocks()
            )
            for keep, u in zip((0.7, 0.5, 0.3), draws, strict=True)
        )
        found = calibrate(KeepRates("a", None, rates, ()), Goal(margin=round(loss - gain, 6)))
        chosen += found.chosen is not None
    assert chosen / 2_000 <= bound


def _no_blocks():
    return pd.DataFrame({"cluster": [], "r": [], "arm_log": []})


@pytest.fixture
def cell(tmp_path):
    """A factory of differences at one keep rate, one example a context."""
    with Store.open(build_store(tmp_path / "run")) as store:
        template = store.cells()[1]

    def make(keep, values):
        pooled = PooledCell("t", None, f"a-k{keep:g}", (template,))
        return Differences(pooled, values, tuple(map(str, range(len(values)))), False, keep)

    return make
