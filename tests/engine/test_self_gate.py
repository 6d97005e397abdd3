"""The project gates itself: real runs of the embedded model against the committed baseline.

Clean repeats pass; a deliberately broken selector (the least important chunks are kept) is a
regression. The runs share the engines of all engine tests; plan, runner, store and gate are those
of the command. Skipped on a machine class without a baseline: ``results/README.md`` says how to
make one.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.analysis.gate.baseline import load_baseline
from harness.cli.gate import app as gate
from harness.engines.vllm.engine import VllmEngine
from harness.methods.specprefill.vllm.scorer import VllmScorer
from harness.run.config import RunConfig
from harness.run.folder import open_run
from harness.run.plan import build_plan
from harness.run.provenance import machine
from harness.run.runner import execute

ROOT = Path(__file__).parents[2]
BASELINE = ROOT / "results" / "gate" / str(machine()["class"]) / "ruler_niah_single_1.json"

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(
        not BASELINE.is_file(), reason=f"no baseline for machine class {machine()['class']}"
    ),
]
EXAMPLES = 12
CONFIG = RunConfig(
    task=("ruler_niah_single_1",),
    arms={"full": {}, "specprefill": {}},
    keep=(0.3,),
    length=(512,),
    limit=EXAMPLES,
    seed=(4,),
    latency_samples=0,
    preset="smollm2",
    dtype="float32",
)


@pytest.fixture
def shared(
    monkeypatch: pytest.MonkeyPatch, vllm_engine: VllmEngine, vllm_scorer: VllmScorer
) -> None:
    """Let runs use the engines that are open, and leave them open."""
    monkeypatch.setattr(VllmEngine, "close", lambda _: None)
    monkeypatch.setattr(VllmScorer, "close", lambda _: None)
    monkeypatch.setattr("harness.run.opener.open_engine", lambda _: vllm_engine)
    monkeypatch.setattr("harness.run.opener.open_scorer", lambda _: vllm_scorer)


def gated(
    folder: Path, capsys: pytest.CaptureFixture[str], **options: object
) -> tuple[int, dict[str, str]]:
    """Run, gate, and return the exit code and each arm's quality verdict."""
    plan = build_plan(CONFIG, {"specprefill": options} if options else None)
    with open_run(plan, folder) as store:
        assert not execute(plan, store, quiet=True).failed
    capsys.readouterr()
    code = gate([str(folder), "--baseline", str(BASELINE), "--json"], standalone_mode=False)
    report = json.loads(capsys.readouterr().out)
    verdicts = {c["arm"]: c["verdict"] for c in report["cells"] if c["kind"] == "quality"}
    return code, verdicts


def test_the_baseline_is_what_the_run_asks_for() -> None:
    """The committed file is whole: two arms, each example, well above the floor."""
    cells = load_baseline(BASELINE).cells
    assert {cell.method for cell in cells} == {"full", "specprefill"}
    assert all(len(cell.examples) == EXAMPLES for cell in cells)
    assert all(sum(e.score for e in cell.examples) >= 0.8 * EXAMPLES for cell in cells)


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("repeat", range(3))
def test_a_clean_repeat_passes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], repeat: int
) -> None:
    """Three runs of unchanged code exit 0."""
    code, verdicts = gated(tmp_path / "run", capsys)
    assert code == 0
    assert set(verdicts.values()) == {"pass"}


@pytest.mark.usefixtures("shared")
def test_a_broken_selector_is_a_regression(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keeping the least important chunks exits 1, and full prefill still passes."""
    code, verdicts = gated(tmp_path / "run", capsys, order="lowest")
    assert code == 1
    assert verdicts.pop("full") == "pass"
    assert list(verdicts.values()) == ["regression"]
