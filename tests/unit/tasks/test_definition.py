"""A task's definition: what of its files makes other cells."""

from __future__ import annotations

from pathlib import Path

import pytest
from packages import MADE, TASK, write

from harness.errors import ConfigError
from harness.models.tokenizer import Tokenizer
from harness.tasks import definition
from harness.tasks.catalogue import list_tasks, resolve
from harness.tasks.definition import code_digest, definition_of
from harness.tasks.examples import load_examples

YAML = TASK.format(name="mine", group="g", tokens=8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A task with an include, functions beside it, and files that it does not use."""
    files = {
        "_base.yaml": YAML,
        "mine.yaml": "include: _base.yaml\ntask: mine\n",
        "made.py": "import rules\n" + MADE,
        "rules.py": "LIMIT = 1\n",
        "unused.py": "",
    }
    return write(tmp_path, files)


def digest(folder: Path) -> str:
    """Return the digest of the folder's task."""
    (task,) = resolve([str(folder / "mine.yaml")])
    return code_digest(task)


@pytest.mark.parametrize(
    ("file", "old", "new", "counts"),
    [
        ("made.py", "in results", "not in results", True),
        ("rules.py", "1", "2", True),
        ("_base.yaml", "max_gen_toks: 8", "max_gen_toks: 9", True),
        ("_base.yaml", "mean", "median", True),
        ("mine.yaml", "task: mine", "task: mine\nnum_fewshot: 0", True),
        ("_base.yaml", "task: mine", "task: mine  # a comment", False),
        ("unused.py", "", "x = 1", False),
    ],
)
def test_what_counts(folder: Path, file: str, old: str, new: str, counts: bool) -> None:
    """Functions, what they import, settings and includes; neither comments nor other files."""
    before = digest(folder)
    path = folder / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new) if old else new)
    assert (digest(folder) != before) is counts


def test_our_scoring_rules_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of a rule under tasks/scoring changes the tasks that score by it, no others."""
    scoring = {p.name: p.read_text("utf-8") for p in definition.SCORING.glob("*.py")}
    copy = write(tmp_path / "harness/tasks/scoring", scoring)
    monkeypatch.setattr(definition, "SCORING", copy)
    monkeypatch.setattr("harness.schema.source_digest._LIBRARY", tmp_path / "harness")
    names = ("ruler_vt", "longbench_lcc", "multidoc_fiction")
    before = [code_digest(task) for task in resolve(names)]
    with (copy / "ruler.py").open("a") as file:
        file.write("# another rule\n")
    after = [code_digest(task) for task in resolve(names)]
    assert [a != b for a, b in zip(before, after, strict=True)] == [True, False, False]


def test_every_task_has_a_definition_of_its_own() -> None:
    """No two of our tasks are the same by their code."""
    digests = [code_digest(task) for task in list_tasks()]
    assert len(set(digests)) == len(digests)


def test_generation_settings_are_part_of_it(folder: Path, smollm2: Tokenizer) -> None:
    """They stand in the identity in words, as they reach the engine."""
    (task,) = resolve([str(folder / "mine.yaml")])
    path = folder / "made.py"
    path.write_text(path.read_text().replace("import rules\n", ""))  # lm-eval imports no neighbour
    loaded = load_examples(
        task, length=None, seed=0, limit=None, tokenizer=smollm2, max_positions=4096
    )
    (settings,) = definition_of(loaded)["generation"]
    assert (settings["max_tokens"], settings["temperature"]) == (8, 0.0)


def test_a_yaml_that_includes_itself_is_one_line(tmp_path: Path) -> None:
    """A circle of includes names a file of it."""
    write(tmp_path, {"a.yaml": "include: b.yaml\ntask: a\n", "b.yaml": "include: a.yaml\n"})
    with pytest.raises(ConfigError, match=r"a\.yaml: the file includes itself"):
        resolve([str(tmp_path / "a.yaml")])
