"""YAML without lost keys, for every file that is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import ConfigError
from harness.methods.arms import load_arm
from harness.methods.specprefill.paper_config import read_paper_config
from harness.run.arms import parse_overrides
from harness.run.config import load_config
from harness.schema.yaml_files import parse_yaml, read_yaml
from harness.tasks.catalogue import resolve

TWICE = {
    "a task": ("task: own\ndoc_to_target: a\noutput_type: generate_until\ndoc_to_target: b\n",
               lambda path: resolve([str(path)]), "doc_to_target", (2, 4)),
    "an arm": ("method: specprefill\ndescription: d\noptions:\n  chunk: 16\n  chunk: 64\n",
               lambda path: load_arm(str(path)), "chunk", (4, 5)),
    "the paper's configuration": (
        "keep_strategy: percentage\nkeep_kwargs:\n  percentage: 0.5\n  percentage: 0.1\n",
        read_paper_config, "percentage", (3, 4)),
    "a sweep": ("task: ruler\nkeep: 0.1\nkeep: 0.3\n", load_config, "keep", (2, 3)),
}  # fmt: skip


@pytest.mark.parametrize("kind", TWICE)
def test_a_key_written_twice_is_refused(kind: str, tmp_path: Path) -> None:
    """One line with the file, the key and both places (lm-evaluation-harness PR #4077)."""
    text, read, key, lines = TWICE[kind]
    path = tmp_path / "file.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        read(path)
    first, second = lines
    assert f"the key '{key}' stands twice (lines {first} and {second})" in str(error.value)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_an_included_file_counts_too(tmp_path: Path) -> None:
    """A fault in a task's include names that file; a key that both files have is no fault."""
    base, own = tmp_path / "_base.yaml", tmp_path / "own.yaml"
    own.write_text("include: _base.yaml\ntask: own\n", encoding="utf-8")
    base.write_text("task: base\noutput_type: generate_until\n", encoding="utf-8")
    assert [task.name for task in resolve([str(own)])] == ["own"]
    base.write_text("test_split: a\ntest_split: b\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"_base\.yaml: .*'test_split' stands twice"):
        resolve([str(own)])


def test_an_override_on_the_command_line() -> None:
    """``--set`` takes YAML values, and they keep every key too."""
    with pytest.raises(ConfigError, match="'first' stands twice"):
        parse_overrides(["specprefill.always_keep={first: 1, first: 2}"])


def test_merged_mappings_may_be_overridden() -> None:
    """A key beside ``<<`` replaces the merged one: that is what a merge is for."""
    text = "base: &b {x: 1, y: 2}\nmine: {<<: *b, y: 3}\n"
    assert parse_yaml(text, "f")["mine"] == {"x": 1, "y": 3}


def test_what_is_no_yaml(tmp_path: Path) -> None:
    """Absent, not UTF-8, not YAML: one line with the file's name."""
    path = tmp_path / "f.yaml"
    for content in (None, b"\xff\xfe", b"a: [1"):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(ConfigError) as error:
            read_yaml(path)
        assert str(error.value).startswith(f"{path}: ")
        assert "\n" not in str(error.value)
