"""Arms: files under baselines/, and how methods are built from options."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import ConfigError
from harness.methods import METHODS
from harness.methods.arms import build_method, list_arms, load_arm, option_defaults
from harness.methods.controls import RandomChunks


def test_every_method_has_defaults_and_builds() -> None:
    """A method without options is its defaults, and the defaults are JSON-ready."""
    import json

    for name in METHODS:
        defaults = option_defaults(name)
        assert build_method(name, json.loads(json.dumps(defaults))) == build_method(name, {})


def test_arms_are_found_by_name_and_by_path() -> None:
    """A shipped arm has a name; a user's own file is given by its path."""
    arm = load_arm("rag-bm25-relevance")
    assert (arm.method, arm.options["order"]) == ("rag", "relevance")
    assert arm in list_arms()


def test_a_users_own_file(tmp_path: Path) -> None:
    """The file's stem is the arm's name, and its options reach the method."""
    path = tmp_path / "mine.yaml"
    path.write_text("method: random\ndescription: mine\noptions: {keep: 0.25}\n")
    arm = load_arm(str(path))
    assert arm.name == "mine"
    assert build_method(arm.method, arm.options) == RandomChunks(keep=0.25)


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("rnadom", {}, "did you mean 'random'"),
        ("random", {"kep": 0.1}, "did you mean 'keep'"),
        ("random", {"keep": 0}, "keep"),
        ("random", {"keep": float("nan")}, "keep"),
        ("random", {"always_keep": {"frist": 1}}, "did you mean 'first'"),
        ("specprefill", {"chunk_sise": 64}, "did you mean 'chunk"),
        ("specprefill", {"boost": {"first": {"token": 4, "factor": 2}}}, "'tokens'"),
        ("rag", {"order": "relevance", "positions": "original"}, "compacted"),
        ("gemfilter", {"pool_kernel": 4}, "odd"),
        ("random", {"keep": True}, "a share is a number"),
        ("random", {7: 0.1}, "no option '7'"),
        ("specprefill", {"window": "automatic"}, "option 'window': a window is a number of tokens"),
        ("specprefill", {"window": -1}, "option 'window': a window is a number of tokens"),
    ],
)
def test_bad_options_say_what_is_right(method: str, options: dict, message: str) -> None:
    """One line names the option and the likely right one; nothing falls back to a default."""
    with pytest.raises(ConfigError, match=message) as caught:
        build_method(method, options, where="my.yaml")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("method: random\ndescription: x\nopions: {}\n", "did you mean 'options'"),
        ("method: random\n", "description"),
        ("- random\n", "keys method, description and options"),
        ("method: [\n", "YAML"),
        ("method: random\ndescription: x\noptions: {keep: 2}\n", "broken.yaml"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, text: str, message: str) -> None:
    """A file that is no arm is refused with its name and the fault."""
    path = tmp_path / "broken.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_arm(str(path))


def test_unknown_arm_names_the_nearest() -> None:
    """A misspelt arm's error says which one was probably meant."""
    with pytest.raises(ConfigError, match="did you mean 'rag-bm25'"):
        load_arm("rag-bm52")
