"""The benchmark's arithmetic and its options; no engine."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from harness.errors import ConfigError
from harness.run.bench.session import TtftOptions, to_json, to_text
from harness.run.bench.shapes import write_shape
from harness.run.bench.ttft import Round, Sparse, look_ahead_cost, summarize

ROUNDS = [
    Round(8.0, 2.0, 0.8, {1: Sparse(2.0, 0.8, 2.8, 0.1), 8: Sparse(2.4, 0.8, 3.2, 0.1)}),
    Round(16.0, 4.0, 1.6, {1: Sparse(4.0, 1.6, 5.6, 0.1), 8: Sparse(4.8, 1.6, 6.4, 0.1)}),
    Round(8.8, 2.2, 0.88, {1: Sparse(2.2, 0.88, 3.08, 0.1), 8: Sparse(2.64, 0.88, 3.52, 0.1)}),
]
OPTIONS = TtftOptions(None, "llama-3.2-1b", None, "dummy", 4096, 0.1, (1, 8), 3, "bfloat16")


def test_reaching_the_bound_is_a_share_of_one():
    """A total of the parts alone is the whole bound, however slow the machine was."""
    result = summarize(ROUNDS, 1)
    assert result.bound == pytest.approx(8.0 / (2.0 + 0.8))
    assert result.share_of_bound == pytest.approx(1.0)
    assert result.full_s == 8.8


def test_the_bound_does_not_take_prefill_as_linear():
    """A tenth of the tokens in a twentieth of the time lifts the bound above 1 / (r + k)."""
    quick = [replace(item, kept_s=item.full_s / 20) for item in ROUNDS]
    assert summarize(quick, 1).bound == pytest.approx(1 / (0.25 + 0.05))
    assert summarize(quick, 1).share_of_bound == pytest.approx(0.3 / 0.35)


def test_more_than_the_bound_is_called_inconsistent():
    """A share above 1 is a disturbed measurement, and the report says so."""
    slow = [replace(item, kept_s=item.full_s / 5) for item in ROUNDS]
    result = summarize(slow, 1)
    assert result.inconsistent
    assert "disturbed" in to_text(OPTIONS, slow, [result])
    assert not summarize(ROUNDS, 8).inconsistent
    assert "disturbed" not in to_text(OPTIONS, ROUNDS, [summarize(ROUNDS, 8)])


def test_look_ahead_costs_its_share():
    """Deeper scoring shows as a smaller share and as a cost over look-ahead 1."""
    result = summarize(ROUNDS, 8)
    assert result.speedup == pytest.approx(2.5)
    assert result.share_of_bound == pytest.approx(2.5 * 0.35)
    assert look_ahead_cost(ROUNDS) == pytest.approx(1.2)
    assert look_ahead_cost([Round(8.0, 2.0, 0.8, {8: ROUNDS[0].sparse[8]})]) is None


def test_json_has_the_deepest_on_top():
    """The promised keys, JSON-ready."""
    results = [summarize(ROUNDS, depth) for depth in (1, 8)]
    report = json.loads(json.dumps(to_json(ROUNDS, results)))
    promised = "full_s scorer_s sparse_s total_s speedup bound share_of_bound"
    assert set(promised.split()) <= report.keys()
    assert report["look_ahead"] == 8
    assert [depth["look_ahead"] for depth in report["depths"]] == [1, 8]
    assert "share of bound" in to_text(OPTIONS, ROUNDS, results)


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"target": "x"}, "either --target or --target-config"),
        ({"load": "auto"}, "--load dummy"),
        ({"keep": 0.0}, "--keep"),
        ({"look_aheads": (0,)}, "--look-ahead"),
    ],
)
def test_bad_options_are_one_line(change, names):
    """Checked before anything starts."""
    options = TtftOptions(**{**vars(OPTIONS), **change})
    with pytest.raises(ConfigError, match=names):
        options.check()


def test_shape_folder_has_a_tokenizer_and_no_weights(tmp_path):
    """A weightless folder that an engine can open with dummy weights."""
    source = tmp_path / "source"
    source.mkdir()
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (source / name).write_text("{}")
    folder = write_shape("llama-3.2-1b", source, tmp_path / "shape")
    assert {path.name for path in folder.iterdir()} == {"config.json", "tokenizer.json"}
    assert json.loads((folder / "config.json").read_text())["hidden_size"] == 2048
    with pytest.raises(ConfigError, match="no model shape"):
        write_shape("llama-9", source, tmp_path / "other")
