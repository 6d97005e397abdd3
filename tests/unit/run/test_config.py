"""Configurations: what is refused, and that equal ones hash equal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.api.options import with_arguments
from harness.errors import ConfigError
from harness.run.config import RunConfig, canonical_digest, load_config, parse_config


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"keeps": [0.1]}, "unknown key 'keeps'; did you mean 'keep'?"),
        ({"keep": 0}, "keep.0: Input should be greater than 0"),
        ({"keep": 1.5}, "keep.0: Input should be less than or equal to 1"),
        ({"keep": float("nan")}, "keep.0: Input should be"),
        ({"keep": []}, "keep: "),
        ({"look_ahead": 0}, "look_ahead.0: Input should be greater than or equal to 1"),
        ({"limit": -3}, "limit: Input should be greater than or equal to 1"),
        ({"dtype": "int3"}, "dtype: Input should be 'bfloat16', 'float16' or 'float32'"),
        ({"engine_args": "max_num_seqz=2"}, "engine_args: vLLM's engine has no argument"),
        ({"engine_args": {"max_num_seqz": 2}}, "did you mean 'max_num_seqs'"),
        ({"engine_args": "worker_cls=x"}, "worker_cls cannot be set for the target"),
        ({"speculator_args": "pipeline_parallel_size=2"}, "for the speculator"),
        ({"engine_args": "max_num_seqs=2", "engine": "hf"}, "the hf engine takes none"),
        ({"engine_args": [1]}, "engine_args: write name=value"),
        ({"preset": "a", "target": "b"}, "either preset, or target and speculator"),
        ({"speculator": "b"}, "speculator is given without target"),
        ({"keep": [0.1, 0.1]}, "a value stands twice"),
        ({"metric": "chioce", "data": "f.jsonl"}, "unknown metric 'chioce'; did you mean 'choice'"),
        ({"metric": "choice"}, "metric is for rows of your own"),
    ],
)
def test_a_fault_is_one_line_with_its_place(raw: dict[str, Any], message: str) -> None:
    """Each kind of wrong value names the source, the key and what would be right."""
    with pytest.raises(ConfigError) as caught:
        parse_config(raw, "f.yaml")
    assert str(caught.value).startswith("f.yaml")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_one_value_stands_for_a_list() -> None:
    """``keep: 0.1`` and ``keep: [0.1]`` are the same configuration."""
    one = parse_config({"keep": 0.1, "task": "ruler"}, "f")
    many = parse_config({"keep": [0.1], "task": ["ruler"]}, "f")
    assert one == many
    assert one.digest == many.digest


def test_a_note_does_not_change_identity() -> None:
    """Two runs that differ in their note only may resume each other; another seed may not."""
    assert RunConfig(note="x").digest == RunConfig().digest
    assert RunConfig(seed=(1,)).digest != RunConfig().digest


def test_arguments_of_engines_are_typed_wherever_they_are_written() -> None:
    """A command line's text and a file's mapping are the same configuration, and part of it."""
    text = parse_config({"engine_args": "max_num_seqs=2", "speculator_args": "block_size=32"}, "f")
    mapping = {"engine_args": {"max_num_seqs": 2}, "speculator_args": {"block_size": 32}}
    assert parse_config(mapping, "f") == text
    assert text.engine_args == {"max_num_seqs": 2}
    assert text.digest != RunConfig().digest
    assert parse_config(text.model_dump(), "f") == text
    assert with_arguments(text, "f", None, None) is text
    other = with_arguments(text, "f", "max_num_seqs=3", None)
    assert (other.engine_args, other.speculator_args) == ({"max_num_seqs": 3}, {"block_size": 32})


def test_arguments_that_nobody_has_given_leave_the_digest_as_it_was() -> None:
    """A run of before there were any can be resumed."""
    before = RunConfig().model_dump(mode="json")
    for name in ("note", "engine_args", "speculator_args"):
        del before[name]
    assert RunConfig().digest == canonical_digest(before)


@given(st.dictionaries(st.text(min_size=1), st.integers(), min_size=1, max_size=3))
def test_unknown_keys_never_pass(extra: dict[str, int]) -> None:
    """Whatever a misspelt key is called, it is refused."""
    unknown = {k: v for k, v in extra.items() if k not in RunConfig.model_fields}
    if unknown:
        with pytest.raises(ConfigError):
            parse_config(unknown, "f")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("keep: [0.1", "not valid YAML"),
        ("- a\n- b\n", "a sweep file is a mapping"),
        ("keep: 0.1\nkeep: 0.3\n", "stands twice"),
        ("", "a sweep file is a mapping"),
    ],
)
def test_a_bad_file_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    """A file that is no sweep says so with its name; a key written twice is not half lost."""
    path = tmp_path / "s.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message) as caught:
        load_config(path)
    assert "s.yaml" in str(caught.value)
