"""Times of a request: to the first token, per token after it, end to end, each paired."""

import math
import sqlite3

import pytest
from synthetic import Arm, Task, build_store

from harness.analysis.summary import summarize
from harness.run.store import Store


def rows_of(folder, **options):
    """Full prefill's row and the arm's, of a made-up run of one task."""
    with Store.open(build_store(folder, **options)) as store:
        full, arm = summarize(store).arms
    return full, arm


def test_each_token_after_the_first_is_paired_too(tmp_path):
    """An arm whose tokens take 1.25 times as long has a ratio of 0.8, with an interval."""
    full, arm = rows_of(tmp_path / "run", arms=[Arm(tpot_ratio=1.25)])
    assert full.tpot_s.median == pytest.approx(0.02)
    assert arm.tpot_s.median == pytest.approx(0.025)
    assert arm.tpot_s.requests == 16
    assert arm.tpot_speedup.ratio == pytest.approx(0.8)
    assert arm.tpot_speedup.low == pytest.approx(0.8)
    assert arm.tpot_speedup.blocks == 8
    assert full.tpot_speedup is None


def test_end_to_end_is_the_first_token_and_each_after_it(tmp_path):
    """Of four tokens: TTFT and three times TPOT; the ratio lies between TTFT's and TPOT's."""
    full, arm = rows_of(tmp_path / "run", arms=[Arm(tpot_ratio=1.25)], noise=0.001)
    assert arm.timed_tokens == 4
    assert arm.e2e_s.median == pytest.approx(arm.ttft_s.median + 3 * 0.025)
    assert full.e2e_s.median == pytest.approx(full.ttft_s.median + 3 * 0.02)
    found = arm.e2e_speedup
    assert found.ratio == pytest.approx(full.e2e_s.median / arm.e2e_s.median, rel=0.02)
    assert arm.tpot_speedup.ratio < found.low < found.high < arm.ttft_speedup.ratio
    assert found.blocks == arm.ttft_speedup.blocks


def test_one_token_has_no_time_per_token(tmp_path):
    """With one token generated there is no TPOT, and end to end is the first token's time."""
    folder = build_store(tmp_path / "run")
    with sqlite3.connect(folder / "store.sqlite") as db:
        db.execute("UPDATE latency SET tpot_s = NULL, tokens = 1")
    db.close()
    with Store.open(folder) as store:
        _, arm = summarize(store).arms
    assert (arm.tpot_s.median, arm.tpot_s.requests, arm.tpot_speedup) == (None, 0, None)
    assert arm.e2e_s.median == arm.ttft_s.median
    assert arm.e2e_speedup == arm.ttft_speedup


def test_a_time_that_is_missing_is_not_taken_for_nothing(tmp_path):
    """Four tokens without a time per token have no end: the request counts in no median of it."""
    folder = build_store(tmp_path / "run")
    with sqlite3.connect(folder / "store.sqlite") as db:
        db.execute("UPDATE latency SET tpot_s = NULL WHERE block = 0")
    db.close()
    with Store.open(folder) as store:
        _, arm = summarize(store).arms
    assert (arm.ttft_s.requests, arm.tpot_s.requests, arm.e2e_s.requests) == (16, 14, 14)
    assert (arm.ttft_speedup.blocks, arm.e2e_speedup.blocks) == (8, 7)


def test_natural_lengths_have_every_time_in_bands(tmp_path):
    """Lengths are pooled for no measure."""
    _, arm = rows_of(tmp_path / "run", tasks=[Task(length=None)])
    assert list(arm.tpot_by_length) == list(arm.e2e_by_length) == list(arm.ttft_by_length)


def test_an_order_effect_names_what_it_spoils(tmp_path):
    """TPOT, which does not depend on who goes first here, keeps its ratio; the others have none."""
    _, arm = rows_of(tmp_path / "run", order_effect=1.0)
    assert "TTFT depends on who goes first" in arm.ttft_speedup.reason
    assert "time end to end depends on who goes first" in arm.e2e_speedup.reason
    assert arm.tpot_speedup.ratio == pytest.approx(1.0)
    assert not math.isnan(arm.tpot_speedup.low)
