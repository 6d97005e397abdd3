"""Pairing by content: order never matters, and nothing is ever dropped."""

import math

from hypothesis import given
from hypothesis import strategies as st

from harness.analysis.gate.baseline import Cell, Example
from harness.analysis.gate.pairing import PairedCell, pair_cells


def cell_of(examples, **changes):
    """A cell with these examples."""
    fields = {
        "task": "t", "group": "g", "category": "c", "metric": "m", "length": None, "arm": "a",
        "method": "full", "reference": False, "keep": None, "look_ahead": None, "options": {},
        "engine": "e", "dtype": "d", "target": "t", "speculator": None,
    }  # fmt: skip
    return Cell(**{**fields, **changes}, examples=tuple(examples))


scores = st.floats(0, 1)
examples = st.lists(
    st.builds(
        lambda content, score, output: (content, score, output),
        st.sampled_from("abcdef"), scores, st.sampled_from("xy"),
    ),
    min_size=1, max_size=12,
)  # fmt: skip


def built(rows):
    """Examples of (content, score, output) rows; equal contents may stand several times."""
    return [
        Example(id=f"{i:02}", content=c, cluster=f"k{i}", score=s, output=o)
        for i, (c, s, o) in enumerate(rows)
    ]


@given(examples, st.randoms(use_true_random=False))
def test_order_never_matters(rows, random):
    """Shuffled examples pair the same; a cell with itself is identical, with zero changes."""
    old = built(rows)
    new = list(old)
    random.shuffle(new)
    found = pair_cells(cell_of(old), cell_of(new))
    assert isinstance(found, PairedCell)
    assert found.identical
    assert len(found.differences) == len(rows)
    assert not found.differences.any()


@given(examples, st.data())
def test_a_changed_score_is_one_difference(rows, data):
    """One changed score changes one difference, and ends the identity."""
    old, index = built(rows), data.draw(st.integers(0, len(rows) - 1))
    score = 0.0 if old[index].score > 0.5 else 1.0
    new = [e.model_copy(update={"score": score}) if e is old[index] else e for e in old]
    found = pair_cells(cell_of(old), cell_of(new))
    assert not found.identical
    assert (found.differences != 0).sum() == 1
    assert found.differences.sum() == score - old[index].score


@given(examples, st.data(), st.sampled_from(["run", "baseline"]))
def test_a_missing_example_is_named_never_dropped(rows, data, side):
    """Whatever example one side lacks, the cells are not comparable, and the reason counts it."""
    old, index = built(rows), data.draw(st.integers(0, len(rows) - 1))
    less = [e for e in old if e is not old[index]]
    pair = (old, less) if side == "run" else (less, old)
    found = pair_cells(*map(cell_of, pair))
    assert isinstance(found, str)
    assert "1 of the baseline's" in found or "the run has 1 examples" in found


@given(examples, st.data(), st.sampled_from([None, math.nan, math.inf]), st.booleans())
def test_a_score_that_is_none_is_named(rows, data, bad, in_baseline):
    """None, NaN and infinity on either side name the example."""
    old, index = built(rows), data.draw(st.integers(0, len(rows) - 1))
    broken = [e.model_copy(update={"score": bad}) if e is old[index] else e for e in old]
    pair = (broken, old) if in_baseline else (old, broken)
    found = pair_cells(*map(cell_of, pair))
    assert isinstance(found, str)
    assert old[index].id in found


def test_other_settings_are_not_compared():
    """Another metric, engine, dtype or target is named instead of compared."""
    old = cell_of(built([("a", 1.0, "x")]))
    for name in ("metric", "engine", "dtype", "target"):
        new = cell_of(old.examples, **{name: "other"})
        assert pair_cells(old, new).startswith(f"{name} is other")
