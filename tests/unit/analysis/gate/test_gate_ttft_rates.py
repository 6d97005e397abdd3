"""Error rates of the TTFT gate, by simulation with a fixed seed."""

import numpy as np
import pytest

from harness.analysis.gate.baseline import Baseline, Cell, Timing
from harness.analysis.gate.ttft import judge_ttft
from harness.analysis.gate.verdicts import Verdict

SETS, ARMS, MARGIN = 2_000, 4, 0.1


def run_of(name, values, prompts="same"):
    """A run with one timed arm a row of ``values``, at one length."""
    cells = tuple(
        Cell(
            task="t", group="g", category="c", metric="m", length=1024, arm=f"a{i}",
            method="specprefill", reference=False, keep=0.1, look_ahead=8, options={},
            engine="e", dtype="d", target="t", speculator="s", examples=(),
            ttft={"1024": Timing(
                values=tuple(row), prompts=tuple(f"{prompts}{k}" for k in range(len(row)))
            )},
        )
        for i, row in enumerate(values)
    )  # fmt: skip
    return Baseline(
        run=name, commits=(), machine_class="m", models={}, sessions=(name,), cells=cells
    )


def judged(shift, blocks, seed, *, paired, sets=SETS // ARMS):
    """Verdicts of many pairs of runs whose true slow-down is exp(shift) − 1.

    Prompts differ by 10 %; timings scatter by 4 %, with heavy tails: a stall now and then.
    """
    rng = np.random.default_rng(seed)
    for _ in range(sets):
        prompts = rng.normal(-1.0, 0.1, (ARMS, blocks))
        before = prompts + 0.04 * rng.standard_t(3, (ARMS, blocks))
        if not paired:
            prompts = rng.normal(-1.0, 0.1, (ARMS, blocks))
        after = prompts + shift + 0.04 * rng.standard_t(3, (ARMS, blocks))
        name = "same" if paired else "other"
        pair = run_of("a", before), run_of("b", after, prompts=name)
        yield [j.verdict for j in judge_ttft(*pair, MARGIN)]


@pytest.mark.parametrize(("blocks", "paired"), [(6, True), (12, True), (12, False)])
def test_no_slow_down_rarely_alarms(blocks, paired):
    """Without any change at most 6 % of families of four arms raise a regression."""
    families = list(judged(0.0, blocks, seed=61, paired=paired))
    assert sum(Verdict.REGRESSION in family for family in families) / len(families) <= 0.06


@pytest.mark.parametrize("sd", [0.02, 0.04, 0.06])
@pytest.mark.parametrize("shared", [True, False])
def test_sessions_that_differ_rarely_alarm(sd, shared):
    """A session that moves all its blocks by 2 to 6 % is no slow-down: at most 5 % of families."""
    rng, alarms, said = np.random.default_rng(79), 0, 0
    for _ in range(SETS // ARMS):
        prompts = rng.normal(-1.0, 0.1, (ARMS, 12))
        moved = rng.normal(0, sd, (2, 1 if shared else ARMS, 1))
        runs = [
            run_of(name, prompts + shift + 0.02 * rng.standard_t(3, (ARMS, 12)))
            for name, shift in zip("ab", moved, strict=True)
        ]
        found = judge_ttft(*runs, MARGIN)
        alarms += any(j.verdict is Verdict.REGRESSION for j in found)
        said += any("time more sessions" in j.detail for j in found)
    assert alarms / (SETS // ARMS) <= 0.05
    if sd == 0.06:
        assert said > 0


@pytest.mark.parametrize(("blocks", "paired"), [(6, True), (12, True), (12, False)])
def test_a_slow_down_of_the_margin_rarely_passes(blocks, paired):
    """A true slow-down of exactly the margin passes in at most 7 % of the comparisons."""
    families = judged(np.log1p(MARGIN), blocks, seed=67, paired=paired)
    verdicts = [verdict for family in families for verdict in family]
    assert verdicts.count(Verdict.PASS) / len(verdicts) <= 0.07


def test_a_large_slow_down_is_found():
    """Half again as slow relative to full prefill is a regression in nearly every family."""
    families = judged(np.log(1.5), 12, seed=71, paired=True)
    verdicts = [verdict for family in families for verdict in family]
    assert verdicts.count(Verdict.REGRESSION) / len(verdicts) >= 0.95


def test_pairing_by_prompt_concludes_more_often():
    """Without a change the paired comparison passes more often than the unpaired one."""
    passed = {}
    for paired in (True, False):
        families = judged(0.0, 12, seed=73, paired=paired, sets=100)
        passed[paired] = sum(v is Verdict.PASS for family in families for v in family)
    assert passed[True] > 1.5 * passed[False]
