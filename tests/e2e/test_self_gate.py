"""The project gates itself: real runs of the embedded model against the committed baseline.

A clean repeat passes; a deliberately broken selector (the least important chunks are kept) is a
regression. Skipped on a machine class without a baseline: ``results/README.md`` says how to make
one.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from harness.gate.baseline import load_baseline
from harness.provenance import machine

pytestmark = [pytest.mark.e2e, pytest.mark.engine, pytest.mark.long]

ROOT = Path(__file__).parents[2]
BASELINE = ROOT / "results" / "gate" / str(machine()["class"]) / "ruler_niah_single_1.json"
RUN = [
    "run", "--preset", "smollm2", "--task", "ruler_niah_single_1", "--keep", "0.1",
    "--length", "1024", "--limit", "30", "--seed", "4", "--latency-samples", "1",
]  # fmt: skip


def harness(*words, cwd):
    """Call the command in a folder of its own."""
    return subprocess.run(
        [sys.executable, "-c", "from harness.cli.main import main; main()", *map(str, words)],
        cwd=cwd, capture_output=True, text=True, check=False, timeout=1_200,
    )  # fmt: skip


def gated(folder, *extra):
    """Run, gate, and return exit code and verdict."""
    done = harness(*RUN, *extra, "--out", folder, cwd=folder.parent)
    assert done.returncode == 0, done.stderr[-500:]
    done = harness("gate", folder, "--baseline", BASELINE, "--json", cwd=folder.parent)
    return done.returncode, json.loads(done.stdout)


@pytest.fixture(autouse=True)
def _needs_baseline():
    if not BASELINE.is_file():
        pytest.skip(f"no baseline for machine class {machine()['class']}")


def test_the_baseline_is_what_the_run_asks_for():
    """The committed file is whole: two arms of 30 examples each, well above the floor."""
    cells = load_baseline(BASELINE).cells
    assert {cell.method for cell in cells} == {"full", "specprefill"}
    assert all(len(cell.examples) == 30 for cell in cells)
    assert all(sum(e.score for e in cell.examples) > 20 for cell in cells)


@pytest.mark.parametrize("repeat", range(3))
def test_a_clean_repeat_passes(tmp_path, repeat):
    """Three runs of unchanged code exit 0."""
    code, report = gated(tmp_path / "run")
    assert code == 0, report


def test_a_broken_selector_is_a_regression(tmp_path):
    """Keeping the least important chunks exits 1, and full prefill still passes."""
    code, report = gated(tmp_path / "run", "--set", "specprefill.order=lowest")
    assert code == 1
    verdicts = {c["arm"]: c["verdict"] for c in report["cells"] if c["kind"] == "quality"}
    assert verdicts["full"] == "pass"
