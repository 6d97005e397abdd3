"""``harness report`` and ``harness export`` as commands: streams, files, exit codes."""

import json
import os
import subprocess
import sys

import pytest
from synthetic import Arm, Task, build_store

pytestmark = pytest.mark.e2e


def harness(*words, cwd=None):
    """Run the command line in a process of its own."""
    code = "from harness.cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A small run."""
    return build_store(tmp_path_factory.mktemp("runs") / "small", tasks=[Task(n=6)])


def test_json_is_alone_on_standard_output(run):
    """A script reads one object; everything else goes elsewhere."""
    done = harness("report", run, "--format", "json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["run"] == "synthetic"
    assert done.stderr == ""


def test_html_lands_in_the_runs_folder_unless_told_otherwise(run, tmp_path):
    """The default place is named on standard error; --out is honoured."""
    assert harness("report", run, "--format", "html").returncode == 0
    assert (run / "report.html").stat().st_size > 20_000
    out = tmp_path / "r.html"
    done = harness("report", run, "--format", "html", "--out", out)
    assert str(out) in done.stderr
    assert out.read_bytes() == (run / "report.html").read_bytes()


def test_a_run_is_found_by_the_start_of_its_name(tmp_path):
    """Under results/runs the start of a name is enough."""
    build_store(tmp_path / "results" / "runs" / "20260101-ruler-abc", tasks=[Task(n=6)])
    assert harness("report", "20260101", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(
    "words",
    [
        ("report", "nope"),
        ("report", "RUN", "--format", "pdf"),
        ("report", "RUN", "--compare", "me"),
        ("report", "RUN", "--format", "md", "--out", "/no/such/folder/r.md"),
        ("report",),
        ("export", "RUN", "--format", "xlsx", "--out", "OUT"),
        ("export", "nope", "--out", "OUT"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(run, tmp_path, words):
    """No traceback, nothing on standard output, nothing written."""
    places = {"RUN": run, "OUT": tmp_path / "out"}
    done = harness(*(places.get(word, word) for word in words))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("harness: ")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_export_writes_and_says_how_much(run, tmp_path):
    """The files are there, and their number is said."""
    done = harness("export", run, "--format", "parquet", "--out", tmp_path / "out")
    assert done.returncode == 0
    assert "4 files" in done.stderr
    assert len(list((tmp_path / "out").iterdir())) == 4


@pytest.mark.parametrize("verb", ["report", "export"])
def test_help_has_an_example(verb):
    """Every command shows how it is used."""
    done = harness(verb, "--help")
    assert done.returncode == 0
    assert f"harness {verb}" in done.stdout
    assert "Example" in done.stdout


@pytest.mark.long
def test_a_million_records_render_in_30_s_and_2_gib(tmp_path):
    """CPU seconds, so that a busy machine does not decide; memory is the process's peak."""
    arms = [
        Arm(f"specprefill-k{keep}-lah{depth}", keep=keep / 100, look_ahead=depth)
        for keep in (10, 30, 50, 70, 90)
        for depth in (1, 2, 4, 8)
    ][:19]
    tasks = [Task(f"ruler_niah_{n}", length=length, n=5_000) for n in range(5) for length in (1, 2)]
    run = build_store(tmp_path / "run", tasks=tasks, arms=arms, blocks=20)
    process = subprocess.Popen(
        [sys.executable, "-c", "from harness.cli.main import main; main()",
         "report", str(run), "--format", "html", "--out", str(tmp_path / "r.html")],
    )  # fmt: skip
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0
    assert usage.ru_utime + usage.ru_stime < 30
    assert usage.ru_maxrss * 1024 < 2 * 2**30  # ru_maxrss counts KiB on Linux
    assert "of 950,000 examples" in (tmp_path / "r.html").read_text(encoding="utf-8")
