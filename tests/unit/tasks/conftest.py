"""Made-up data sets in the publishers' formats, imported into a folder of their own."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from unit.tasks.data.files import MUSIQUE, NQ, lines, numbered

from harness.tasks.data.importing import import_path
from harness.tasks.data.invented import World


@pytest.fixture(scope="session")
def made_up_squad() -> dict[str, object]:
    """SQuAD's format with 120 invented paragraphs in 12 articles, one question each."""
    world = World(random.Random(1), frozenset())
    while len(world.of_kind("place")) < 120:
        world.add()
    articles: list[dict[str, object]] = []
    for start in range(0, 120, 10):
        paragraphs = [
            {
                "context": place.document,
                "qas": [
                    {
                        "id": place.name,
                        "question": f"In which year was {place.name} founded?",
                        "is_impossible": False,
                        "answers": [
                            {"text": place.says("founded").value, "answer_start": 0},
                            {"text": f"the year {place.says('founded').value}", "answer_start": 0},
                        ],
                    }
                ],
            }
            for place in world.of_kind("place")[start : start + 10]
        ]
        articles.append({"title": f"Article {start}", "paragraphs": paragraphs})
    return {"version": "v2.0", "data": articles}


@pytest.fixture(scope="session")
def made_up_hotpot() -> list[dict[str, object]]:
    """HotpotQA's format: 20 questions with ten invented paragraphs each, two of them gold."""
    world = World(random.Random(2), frozenset())
    while len(world.entities) < 200:
        world.add()
    rows: list[dict[str, object]] = []
    for start in range(0, 200, 10):
        own = world.entities[start : start + 10]
        first, second = own[3], own[7]
        rows.append(
            {
                "_id": f"q{start}",
                "question": f"What is said of {first.name} and {second.name}?",
                "answer": first.statements[0].value,
                "type": "bridge",
                "level": "easy",
                "supporting_facts": [[first.name, 0], [second.name, 1]],
                "context": [[e.name, [f"{s.sentence} " for s in e.statements]] for e in own],
            }
        )
    return rows


@pytest.fixture
def library(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    made_up_squad: dict[str, object],
    made_up_hotpot: list[dict[str, object]],
) -> Path:
    """A data folder with made-up SQuAD, HotpotQA, MuSiQue and lost-in-the-middle files."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    files = {
        "squad.json": json.dumps(made_up_squad),
        "hotpot.json": json.dumps(made_up_hotpot),
        "musique.jsonl": lines(*numbered(MUSIQUE, "id", 5)),
        "nq.jsonl": lines(*[NQ] * 5),
    }
    for name, text in files.items():
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        import_path(path)
    return tmp_path
