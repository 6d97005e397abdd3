"""TTFT, time per token and end to end stand side by side in every format."""

import csv
import io
import json

import pytest
from rich.console import Console
from synthetic import Arm, build_store

from harness.report.render import render
from harness.report.source import open_report
from harness.report.terminal import render_table


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run whose arm is three times as fast to the first token, and slower after it."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    return build_store(folder, arms=[Arm(tpot_ratio=1.25)])


def test_every_format_shows_every_time(run):
    """Medians with their units, and ratios with their intervals, are the JSON's in each."""
    arm = json.loads(render([str(run)], "json"))["arms"][1]
    assert arm["tpot_s"]["median"] == pytest.approx(0.025)
    whole = arm["e2e_speedup"]
    ratio = f"{whole['ratio']:.2f}× [{whole['low']:.2f}, {whole['high']:.2f}]"
    with open_report([str(run)]) as report:
        console = Console(width=120, file=io.StringIO(), color_system=None)
        render_table(report.runs[0].summary, console)
    printed = console.file.getvalue()
    for text in (printed, render([str(run)], "md").replace("\\", ""), render([str(run)], "html")):
        assert "25.0 ms" in text
        assert "0.80× [0.80, 0.80]" in text
        assert f"{arm['e2e_s']['median']:.3f} s" in text
        assert ratio in text
        assert "last of the 4 tokens timed" in " ".join(text.split())
    line = list(csv.DictReader(io.StringIO(render([str(run)], "csv"))))[1]
    for measure in ("tpot", "e2e"):
        assert float(line[f"{measure}_median_s"]) == arm[f"{measure}_s"]["median"]
        for name, key in (("", "ratio"), ("_low", "low"), ("_high", "high")):
            assert float(line[f"{measure}_speedup{name}"]) == arm[f"{measure}_speedup"][key]


def test_a_run_without_timings_has_no_table_of_times(tmp_path):
    """Nothing is printed about what was not measured."""
    run = build_store(tmp_path / "run", blocks=0)
    assert "Time of a request" not in render([str(run)], "md")
    assert "Time of a request" not in render([str(run)], "html")
