"""docs/architecture.md against the tree: rooms, answers, and the exported order."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
ANSWERS = re.findall(r"^\| (.+?) \| `(harness/[\w/]+\.py)` \| `(\w+)` \|$", PAGE, re.MULTILINE)


def test_there_are_answers_enough() -> None:
    """At least fifteen questions of a newcomer have an answer."""
    assert len(ANSWERS) >= 15


@pytest.mark.parametrize(("question", "file", "name"), ANSWERS, ids=[a[2] for a in ANSWERS])
def test_the_answer_is_there(question: str, file: str, name: str) -> None:
    """The file exists and defines the name at its top."""
    path = ROOT / file
    assert path.is_file(), f"where is {question}? {file} is gone"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    defined = {getattr(node, "name", None) for node in tree.body}
    assert name in defined, f"where is {question}? {file} has no {name}"


def test_the_page_lists_the_rooms_in_the_contracts_order() -> None:
    """The table of rooms is the layers that import-linter holds, from the ground up."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (rooms,) = (c for c in config["tool"]["importlinter"]["contracts"] if c["id"] == "rooms")
    layers = [set(re.findall(r"\w+", layer)) for layer in reversed(rooms["layers"])]
    order = {room: index for index, layer in enumerate(layers) for room in layer}
    told = re.findall(r"`harness/(\w+)(?:/|\.py)`", PAGE[: PAGE.index("The rule for a new line")])
    assert set(told) == set(order)
    ranks = [order[room] for room in told if room not in {"errors", "paths"}]
    assert ranks == sorted(ranks)


def test_the_root_is_small() -> None:
    """Sixteen entries at most: a new idea goes into a room."""
    entries = {p.name for p in (ROOT / "harness").iterdir()} - {"__pycache__", "_resources"}
    assert len(entries) <= 16, sorted(entries)
