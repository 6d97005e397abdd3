"""``harness gate`` as a user calls it: exit codes, one line on stderr, strict output."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from synthetic import Arm, Task, build_store

pytestmark = pytest.mark.e2e

T = Task(n=40, full_rate=0.95)


def harness(*words, cwd):
    """Run the command as a user would."""
    return subprocess.run(
        [sys.executable, "-c", "from harness.cli.main import main; main()", *map(str, words)],
        cwd=cwd, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONWARNINGS": "ignore", "GITHUB_STEP_SUMMARY": ""},
    )  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with runs a, b (a repeat), c (broken) and the baseline of a."""
    folder = tmp_path_factory.mktemp("gate")
    for name, loss in (("a", 0.05), ("b", 0.05), ("c", 0.9)):
        build_store(folder / name, tasks=[T], arms=[Arm(loss=loss)], run_id=name, blocks=1)
    done = harness("gate", "update", "a", "--baseline", "base.json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["gate", "b", "--baseline", "base.json", "--junit", "j.xml"], 0, "gate: pass"),
        (["gate", "c", "--baseline", "base.json", "--github"], 1, "::error title=regression"),
        (["gate", "check", "c", "--baseline", "base.json"], 1, "gate: REGRESSION"),
        (["gate", "b", "--baseline", "none.json"], 2, "harness gate update"),
        (["gate", "nowhere", "--baseline", "base.json"], 2, "not a run"),
        (["gate", "b", "--baseline", "base.json", "--margin", "0"], 2, "--margin"),
        (["gate", "b"], 2, "--baseline"),
        (["gate"], 2, "run"),
        (["gate", "--help"], 0, "update"),
    ],
)
def test_command_and_exit_codes(runs, words, code, said):
    """Each way to call the gate ends with its exit code and says why, in one line on stderr."""
    done = harness(*words, cwd=runs)
    assert done.returncode == code, done.stderr
    assert said in (done.stderr if code == 2 else done.stdout)
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == (1 if code == 2 else 0)


def test_nan_in_the_baseline_never_reaches_any_output(runs):
    """Case of public reports: one NaN score; exit 4, the example named, no NaN printed."""
    text = (runs / "base.json").read_text().replace('"score": 1.0', '"score": NaN', 1)
    (runs / "nan.json").write_text(text)
    for extra in ([], ["--json"]):
        done = harness("gate", "b", "--baseline", "nan.json", "--junit", "n.xml", *extra, cwd=runs)
        assert done.returncode == 4
        assert "ruler_niah_single_1/2048/0/" in done.stdout
        for output in (done.stdout, Path(runs / "n.xml").read_text()):
            assert "nan" not in output.lower()
            assert "inf" not in output.lower()


def test_json_is_one_object(runs):
    """``--json`` prints one object and nothing else, with the same verdict as the exit code."""
    done = harness("gate", "c", "--baseline", "base.json", "--json", "--github", cwd=runs)
    found = json.loads(done.stdout)
    assert (found["verdict"], found["exit_code"]) == ("regression", done.returncode) == (
        "regression", 1,
    )  # fmt: skip
