"""The baseline file: written whole, read strictly, never overwritten by mistake."""

import json
import subprocess
from pathlib import Path

import pytest
from synthetic import Task, build_store

from harness.analysis.gate.baseline import VERSION, Baseline, load_baseline
from harness.analysis.gate.collect import collect
from harness.analysis.gate.report import run_gate
from harness.analysis.gate.update import update_baseline
from harness.errors import DataError
from harness.run.store import Store

T = Task(n=30)


def run_of(folder, **options):
    """A synthetic run as the gate sees it."""
    with Store.open(build_store(folder, **{"tasks": [T], **options})) as store:
        return collect(store)


@pytest.fixture
def written(tmp_path):
    """A baseline file of a synthetic run."""
    path = tmp_path / "gate" / "baseline.json"
    update_baseline(run_of(tmp_path / "run"), path, margin=None)
    return path


def edit(path, change):
    """Apply ``change`` to the file's JSON."""
    raw = json.loads(path.read_text())
    change(raw)
    path.write_text(json.dumps(raw))


def test_written_is_read_again(written, tmp_path):
    """What update writes, load reads, example for example, one line each."""
    baseline = load_baseline(written)
    again = run_of(tmp_path / "again")
    assert [c.examples for c in baseline.cells] == [c.examples for c in again.cells]
    lines = [line for line in written.read_text().splitlines() if '"content"' in line]
    assert len(lines) == 60
    assert [c.margin for c in baseline.cells] == [0.095, 0.095]


def test_large_sets_get_two_points(tmp_path):
    """From 500 examples on the recorded margin is 0.02."""
    path = tmp_path / "b.json"
    update_baseline(run_of(tmp_path / "run", tasks=[Task(n=500)]), path, margin=None)
    assert {c.margin for c in load_baseline(path).cells} == {0.02}


@pytest.mark.parametrize("token", ["NaN", "Infinity", "null"])
def test_a_score_that_is_none_is_not_comparable(written, tmp_path, token):
    """NaN in the baseline: exit 4, the example named, and no NaN in what is printed."""
    text = written.read_text()
    written.write_text(text.replace('"score": 1.0', f'"score": {token}', 1))
    report = run_gate(run_of(tmp_path / "new"), load_baseline(written))
    assert report.exit_code == 4
    assert "the baseline's score of example ruler_niah_single_1/2048/0/" in (
        report.judgements[0].detail
    )
    json.dumps(report.to_json(), allow_nan=False)


def test_an_arm_of_zeros_is_no_failure(written, tmp_path):
    """Every score of an arm 0.0: the change is a gain, finite everywhere, and not exit 1."""

    def zero(raw):
        for example in raw["cells"][1]["examples"]:
            example["score"] = 0.0

    edit(written, zero)
    report = run_gate(run_of(tmp_path / "new"), load_baseline(written))
    assert report.exit_code == 0
    json.dumps(report.to_json(), allow_nan=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda raw: raw.update(version=99), "version 99"),
        (lambda raw: raw.update(format="other"), "not a gate baseline"),
        (lambda raw: raw.update(extra=1), "extra"),
        (lambda raw: raw["cells"][0].pop("task"), "cells.0.task"),
        (lambda raw: raw["cells"].append(raw["cells"][0]), "twice"),
        (lambda raw: raw["cells"][0].update(margin=-1), "margin"),
        (lambda raw: raw["cells"][0]["examples"][0].update(score=87), "not in \\[0, 1\\]"),
    ],
)
def test_damage_is_one_line(written, change, message):
    """Every kind of damage is refused with exit code 2 and its place."""
    edit(written, change)
    with pytest.raises(DataError, match=message) as caught:
        load_baseline(written)
    assert caught.value.code == 2
    assert "\n" not in str(caught.value)


def test_no_json_and_no_file_are_one_line(tmp_path):
    """A file that is no JSON, or is not there, says what to do."""
    (tmp_path / "x.json").write_text("{\n")
    with pytest.raises(DataError, match="not valid JSON"):
        load_baseline(tmp_path / "x.json")
    with pytest.raises(DataError, match="harness gate update"):
        load_baseline(tmp_path / "none.json")


def test_update_refuses_to_overwrite_what_it_does_not_know(tmp_path):
    """A file that is no baseline is left alone."""
    path = tmp_path / "notes.json"
    path.write_text('{"mine": 1}')
    with pytest.raises(DataError, match="not a gate baseline"):
        update_baseline(run_of(tmp_path / "run"), path, margin=None)
    assert path.read_text() == '{"mine": 1}'


def test_update_refuses_an_incomplete_run(tmp_path):
    """A run with an unscored example never becomes a baseline."""
    path = tmp_path / "b.json"
    run = run_of(tmp_path / "run", score=lambda arm, t, i: None if i == 3 else 1.0)
    with pytest.raises(DataError, match="/3 has no score"):
        update_baseline(run, path, margin=None)
    assert not path.exists()


def test_update_says_what_changes(written, tmp_path):
    """Scores that change are counted, and their spread widens the recorded margin."""
    new = run_of(tmp_path / "new", score=lambda arm, t, i: float(i % 3 > 0))
    changes = update_baseline(new, written, margin=None)
    assert all(change.changed > 0 for change in changes)
    assert all(change.margin > 0.095 for change in changes)
    assert all(change.smallest == change.margin for change in changes)


def test_a_baseline_at_a_git_ref_ignores_the_working_tree(written, monkeypatch, tmp_path):
    """What the change under test does to the file has no effect at the ref."""
    repository = written.parent
    monkeypatch.chdir(repository)
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "baseline"]):
        subprocess.run([*git, *command], check=True, capture_output=True)
    committed = load_baseline(written)
    written.write_text("{}")
    assert load_baseline(written, "HEAD") == committed
    for ref, message in (("nowhere", "git ref 'nowhere'"), ("--help", "git ref '--help'")):
        with pytest.raises(DataError, match=message):
            load_baseline(written, ref)
    with pytest.raises(DataError, match="outside"):
        load_baseline(tmp_path / "elsewhere.json", "HEAD")
    with pytest.raises(DataError, match=r"none\.json at HEAD"):
        load_baseline(repository / "none.json", "HEAD")


def test_the_published_schema_is_the_models():
    """results/schema documents exactly what is read."""
    published = Path(__file__).parents[4] / "results" / "schema" / "gate-baseline-v1.json"
    assert json.loads(published.read_text()) == Baseline.model_json_schema()


def test_the_version_is_pinned():
    """A change of the format raises the version: old files must be upgraded or refused."""
    assert VERSION == 1
