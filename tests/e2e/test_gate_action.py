"""``action.yml``: its script, run as GitHub would, with the real gate on synthetic runs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from synthetic import Arm, Task, build_store

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash"),
]

ACTION = Path(__file__).parents[2] / "action.yml"
T = Task(n=20, full_rate=1.0)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    """Runs a (baseline), b (repeat), c (broken), d (one answer lost) and a harness command."""
    folder = tmp_path_factory.mktemp("action")
    runs = {
        "a": lambda arm, task, i: 1.0,
        "b": lambda arm, task, i: 1.0,
        "c": lambda arm, task, i: float(arm == "full"),
        "d": lambda arm, task, i: float(arm == "full" or i > 0),
    }
    for name, score in runs.items():
        build_store(folder / name, tasks=[T], arms=[Arm()], score=score, blocks=1)
    command = folder / "harness"
    command.write_text(
        f"#!{sys.executable}\nfrom harness.cli.main import main\nmain()\n", encoding="utf-8"
    )
    command.chmod(0o755)
    subprocess.run(
        [command, "gate", "update", "a", "--baseline", "base.json"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    return folder


def step(workspace, **inputs):
    """Run the action's step with its inputs' defaults; return the process and its output file."""
    action = yaml.safe_load(ACTION.read_text())
    (gate,) = action["runs"]["steps"]
    values = {name: spec.get("default", "") for name, spec in action["inputs"].items()}
    values |= {"baseline": "base.json", "harness": str(workspace / "harness"), **inputs}
    for name in ("output", "summary"):
        (workspace / name).write_text("")
    environment = {
        key: values[text.removeprefix("${{ inputs.").removesuffix(" }}")]
        for key, text in gate["env"].items()
    }
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", gate["run"]],
        cwd=workspace, capture_output=True, text=True, check=False,
        env={
            **os.environ, **environment, "GITHUB_OUTPUT": str(workspace / "output"),
            "GITHUB_STEP_SUMMARY": str(workspace / "summary"),
        },
    )  # fmt: skip
    return done, (workspace / "output").read_text()


@pytest.mark.parametrize(
    ("run", "inputs", "code", "output"),
    [
        ("b", {}, 0, "exit-code=0\n"),
        ("c", {}, 1, "exit-code=1\n"),
        ("d", {"ttft": "false"}, 0, "exit-code=3\n"),
        ("d", {"inconclusive": "fail", "margin": "0.05"}, 3, "exit-code=3\n"),
        ("b", {"baseline": "none.json"}, 2, "exit-code=2\n"),
        ("b", {"run": "b; touch pwned"}, 2, "exit-code=2\n"),
    ],
)
def test_the_step_ends_as_the_gate_says(workspace, run, inputs, code, output):
    """Exit codes pass through, an inconclusive one warns unless told to fail, inputs are data."""
    done, written = step(workspace, **{"run": run, **inputs})
    assert done.returncode == code, done.stderr
    assert written == output
    assert not (workspace / "pwned").exists()


def test_the_step_writes_summary_annotations_and_junit(workspace):
    """A regression is annotated, summarized as a table, and in the XML."""
    done, _ = step(workspace, run="c")
    assert "::error title=regression" in done.stdout
    assert "| quality |" in (workspace / "summary").read_text()
    assert "<failure" in (workspace / "gate.xml").read_text()
