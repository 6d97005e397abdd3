"""Error rates of the TTFT gate, by simulation with a fixed seed."""

import numpy as np
import pytest

from harness.gate.baseline import Baseline, Cell, Timing
from harness.gate.ttft import judge_ttft
from harness.gate.verdicts import Verdict

SETS, ARMS, MARGIN = 2_000, 4, 0.1


def run_of(name, values):
    """A run with one timed arm a row of ``values``, at one length."""
    cells = tuple(
        Cell(
            task="t", group="g", category="c", metric="m", length=1024, arm=f"a{i}",
            method="specprefill", reference=False, keep=0.1, look_ahead=8, options={},
            engine="e", dtype="d", target="t", speculator="s", examples=(),
            ttft={"1024": Timing(values=tuple(row))},
        )
        for i, row in enumerate(values)
    )  # fmt: skip
    return Baseline(
        run=name, commits=(), machine_class="m", models={}, sessions=(name,), cells=cells
    )


def judged(shift, blocks, seed, spread=0.04, sets=SETS // ARMS):
    """Verdicts of many pairs of runs whose true slow-down is exp(shift) − 1."""
    rng = np.random.default_rng(seed)
    for _ in range(sets):
        before = rng.normal(-1.0, spread, (ARMS, blocks))
        # Heavy tails: a stall of the machine now and then.
        after = -1.0 + shift + spread * rng.standard_t(3, (ARMS, blocks))
        yield [j.verdict for j in judge_ttft(run_of("a", before), run_of("b", after), MARGIN)]


@pytest.mark.parametrize(("blocks", "sets"), [(6, SETS), (12, SETS // ARMS)])
def test_no_slow_down_rarely_alarms(blocks, sets):
    """Without any change at most 6 % of families of four arms raise a regression."""
    alarms = sum(
        Verdict.REGRESSION in verdicts for verdicts in judged(0.0, blocks, seed=61, sets=SETS)
    )
    assert alarms / sets <= 0.06


@pytest.mark.parametrize("blocks", [6, 12])
def test_a_slow_down_of_the_margin_rarely_passes(blocks):
    """A true slow-down of exactly the margin passes in at most 7 % of the comparisons."""
    verdicts = [v for family in judged(np.log1p(MARGIN), blocks, seed=67) for v in family]
    assert verdicts.count(Verdict.PASS) / len(verdicts) <= 0.07


def test_a_large_slow_down_is_found():
    """Half again as slow relative to full prefill is a regression in nearly every family."""
    verdicts = [v for family in judged(np.log(1.5), 12, seed=71) for v in family]
    assert verdicts.count(Verdict.REGRESSION) / len(verdicts) >= 0.95
