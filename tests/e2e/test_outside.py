"""A package of others' own method and task, installed beside the harness and run through it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "tests" / "outside" / "harness-example-plugin"
ORIGIN = "harness-example-plugin 0.1.0"
RUN = (
    *("run", "--engine", "fake", "--preset", "smollm2", "--task", "riddles_rain"),
    *("--keep", "0.1,0.3", "--length", "1024", "--limit", "2", "--latency-samples", "0", "--json"),
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, built from its own pyproject.toml and installed offline by pip."""
    folder = tmp_path_factory.mktemp("outside")
    source = shutil.copytree(PLUGIN, folder / "source")
    options = ("--no-index", "--no-deps", "--no-build-isolation", "--quiet")
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(folder / "site")]
    subprocess.run([*command, str(source)], check=True)
    return folder / "site"


def harness(site: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command line where the package is installed, in an empty folder."""
    folder.mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, "-m", "harness", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(site)])},
    )


def found(site: Path, folder: Path, *words: str) -> Any:
    """Return the JSON object that a command prints."""
    done = harness(site, folder, *words)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return json.loads(done.stdout)


def test_it_is_listed_with_its_package(site: Path, tmp_path: Path) -> None:
    """Method and task stand in both lists, with where they come from, beside our own."""
    methods = found(site, tmp_path, "methods", "--json")
    assert methods["broken"] == []
    origins = {method["name"]: method["from"] for method in methods["methods"]}
    assert origins["every_nth"] == ORIGIN
    assert set(origins.values()) == {"built in", ORIGIN}
    tasks = found(site, tmp_path, "tasks", "--json")
    assert {t["from"] for t in tasks["tasks"] if t["name"] == "riddles_rain"} == {ORIGIN}
    assert f"from: {ORIGIN}" in harness(site, tmp_path, "methods", "every_nth").stdout
    assert "riddles_rain" in harness(site, tmp_path, "tasks", "riddles").stdout


def cell_ids(run: Path) -> dict[str, str]:
    """Cell ids by arm."""
    from harness.run.store import Store

    with Store.open(run) as store:
        return {cell.arm: cell.cell_id for cell in store.cells()}


def changed(site: Path, copy: Path, file: str, old: str, new: str) -> Path:
    """Return a copy of the installation with one change in its code."""
    shutil.copytree(site, copy)
    path = copy / "harness_example_plugin" / file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    return copy


def test_its_method_on_its_task(site: Path, tmp_path: Path) -> None:
    """Both keep rates are honoured; a change of the method's code makes other cells of it alone."""
    words = (*RUN, "--method", "full,every_nth", "--out", "run")
    summary = found(site, tmp_path, *words)
    kept = {arm["arm"]: arm["keep_achieved"] for arm in summary["arms"]}
    assert kept.keys() == {"full", "every_nth-k10", "every_nth-k30"}
    assert 0.1 <= kept["every_nth-k10"] < 0.14
    assert 0.3 <= kept["every_nth-k30"] < 0.34
    scores = {arm["arm"]: arm["score"]["mean"] for arm in summary["arms"]}
    assert scores["full"] == 1.0
    before = cell_ids(tmp_path / "run")
    other = changed(site, tmp_path / "method", "every_nth.py", "length = len", "length = 0 + len")
    refused = harness(other, tmp_path, *words)
    assert refused.returncode == 2
    assert "holds a run of another configuration" in refused.stderr
    found(other, tmp_path, *words[:-1], "again")
    after = cell_ids(tmp_path / "again")
    assert after["full"] == before["full"]
    assert not {after[arm] for arm in kept if arm != "full"} & set(before.values())


def test_its_scoring_rule_is_part_of_every_cell(site: Path, tmp_path: Path) -> None:
    """A changed rule in a module that the task's functions import never meets an old score."""
    words = (*RUN, "--method", "full", "--out")
    first = found(site, tmp_path, *words, "first")
    other = changed(site, tmp_path / "rule", "judging.py", "float(any(", "0.5 * float(any(")
    second = found(other, tmp_path, *words, "second")
    assert [arm["score"]["mean"] for arm in (*first["arms"], *second["arms"])] == [1.0, 0.5]
    assert cell_ids(tmp_path / "first").keys() == cell_ids(tmp_path / "second").keys()
    assert cell_ids(tmp_path / "first") != cell_ids(tmp_path / "second")


def test_a_broken_version_of_it_breaks_nothing_of_ours(site: Path, tmp_path: Path) -> None:
    """Listed as broken with the reason; built-in arms and tasks run as ever."""
    broken = changed(site, tmp_path / "broken", "__init__.py", '"""', '1 / 0\n"""')
    for verb in ("methods", "tasks"):
        listed = found(broken, tmp_path, verb, "--json")
        (fault,) = listed["broken"]
        assert fault["from"] == ORIGIN
        assert "ZeroDivisionError" in fault["reason"]
        assert len(listed[verb]) > 10
    ours = [*RUN, "--method", "full,random"]
    ours[ours.index("riddles_rain")] = "ruler_vt"
    assert len(found(broken, tmp_path, *ours)["arms"]) == 3
    refused = harness(broken, tmp_path, *RUN, "--method", "every_nth")
    assert refused.returncode == 2
    (line,) = refused.stderr.strip().splitlines()
    assert "entry point 'every_nth' (harness.methods) of harness-example-plugin 0.1.0" in line
