"""Names become tasks: ours at once, lm-eval's where they are not ours, a path to a YAML."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.cli.tasks import app
from harness.errors import ConfigError, DataError
from harness.tasks.catalogue import list_tasks, require_data, resolve
from harness.tasks.info import FOREIGN


@pytest.fixture(autouse=True)
def _own_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def test_groups_are_whole() -> None:
    """13 RULER tasks, 21 LongBench, 13 LongBench-E, 5 multi-document sets; names by scheme."""
    groups: dict[str, list[str]] = {}
    for task in list_tasks():
        groups.setdefault(task.group, []).append(task.name)
    assert {name: len(tasks) for name, tasks in groups.items()} == {
        "ruler": 13, "longbench": 21, "longbench_e": 13, "multidoc": 5,
    }  # fmt: skip
    assert all(name.startswith("ruler_") for name in groups["ruler"])
    assert all(name.startswith("longbench_") for name in groups["longbench"])
    assert all(name.endswith("_e") for name in groups["longbench_e"])


def test_listing_imports_nothing_heavy() -> None:
    """``harness tasks`` starts at once: neither lm-eval, datasets nor torch is imported."""
    code = (
        "import sys; from harness.tasks.catalogue import list_tasks, resolve; "
        "assert len(list_tasks()) == 52 and resolve(['ruler']); "
        "print([m for m in ('lm_eval', 'datasets', 'torch', 'transformers') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_json_has_the_promised_keys() -> None:
    """Every task with name, group, category, metric, ready and needs."""
    done = CliRunner().invoke(app, ["--json"], standalone_mode=False)
    tasks = json.loads(done.stdout)["tasks"]
    assert len(tasks) == 52
    keys = {"name", "group", "category", "metric", "ready", "needs", "from"}
    assert all(set(t) == keys for t in tasks)
    ready = {t["name"] for t in tasks if t["ready"]}
    assert {"ruler_niah_single_2", "multidoc_fiction"} <= ready
    assert not ready & {"ruler_qa_1", "longbench_hotpotqa"}


def test_a_group_names_its_tasks_once() -> None:
    """A group and one of its tasks give each task once, in the order asked."""
    names = [task.name for task in resolve(["ruler_vt", "ruler"])]
    assert names[0] == "ruler_vt"
    assert len(names) == len(set(names)) == 13


@pytest.mark.parametrize(
    ("name", "near"),
    [("ruler_nia_single_1", "ruler_niah_single_1"), ("longbench_hotpot", "longbench_hotpotqa")],
)
def test_a_misspelt_name_has_near_ones(name: str, near: str) -> None:
    """One line that names the likely right task."""
    with pytest.raises(ConfigError, match=near):
        resolve([name])


def test_a_name_like_no_other() -> None:
    """Where nothing is near, the line says where names are listed."""
    with pytest.raises(ConfigError, match="harness tasks"):
        resolve(["qqqqqq"])


def test_absent_data_name_the_command() -> None:
    """A task asked for by name says how to get its data, before anything is loaded."""
    (task,) = resolve(["longbench_hotpotqa"])
    with pytest.raises(DataError, match=r"harness data pull longbench_hotpotqa, or .* import"):
        require_data(task)


def test_lm_evals_own_tasks_and_groups() -> None:
    """Names that are not ours are looked up in the installed lm-eval."""
    (task,) = resolve(["arc_easy"])
    assert task.group == FOREIGN
    assert task.output_type == "multiple_choice"
    assert task.metric == "acc"
    assert len(resolve(["arc_easy", "arc_challenge"])) == 2


def test_our_tasks_win_over_lm_evals() -> None:
    """lm-eval has a ruler_vt too: ours is the one that runs."""
    (task,) = resolve(["ruler_vt"])
    assert task.group == "ruler"
    assert "lm_eval" not in str(task.path)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("task: [a", "not valid YAML: line 1: expected"),
        ("- a\n- b\n", "a mapping, not list"),
        ("metadata: {}\n", "no 'task: NAME'"),
        ("include: nothing.yaml\ntask: x\n", "nothing.yaml"),
    ],
)
def test_a_broken_yaml_is_one_line(text: str, match: str, tmp_path: Path) -> None:
    """A user's file that is no task is named, with what is wrong."""
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=match) as error:
        resolve([str(path)])
    assert "\n" not in str(error.value)


def test_a_yaml_that_is_not_there() -> None:
    """A path to nothing is named."""
    with pytest.raises(ConfigError, match=r"nowhere\.yaml does not exist"):
        resolve(["nowhere.yaml"])


def test_two_definitions_of_one_name(tmp_path: Path) -> None:
    """Their results could not be told apart (lm-evaluation-harness#3401); one file twice is one."""
    for stem in ("twin_a", "twin_b"):
        (tmp_path / f"{stem}.yaml").write_text("task: twin\n", encoding="utf-8")
    first, second = str(tmp_path / "twin_a.yaml"), str(tmp_path / "twin_b.yaml")
    assert len(resolve([first, f"{tmp_path}/./twin_a.yaml"])) == 1
    with pytest.raises(ConfigError, match=r"two tasks are called 'twin': .*twin_a.*twin_b"):
        resolve([first, second])
    (tmp_path / "twin_b.yaml").write_text("task: ruler_vt\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"ruler_vt.*vt\.yaml"):
        resolve(["ruler", second])
