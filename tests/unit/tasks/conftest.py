"""Two tokenizers of different make, and data to run tasks on."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from unit.data.files import MUSIQUE, NQ, lines, numbered

from harness.data.importing import import_path
from harness.data.invented import World
from harness.models.embedded import prepare_smollm2
from harness.tokenizer import Tokenizer

TOKENIZERS = ("smollm2", "metaspace")


@pytest.fixture(scope="session")
def smollm2() -> Tokenizer:
    """The embedded model's: byte-level BPE, digits one by one, a chat template."""
    return Tokenizer.load(str(prepare_smollm2()))


@pytest.fixture(scope="session")
def metaspace(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """One as Llama 2's: SentencePiece-like, a start token of its own, no chat template."""
    from tokenizers import Tokenizer as Fast
    from tokenizers import decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    from harness.data.essays import load_essays

    fast = Fast(models.BPE(byte_fallback=True))
    fast.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    fast.decoder = decoders.Sequence([decoders.Metaspace(), decoders.ByteFallback()])
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=1500, special_tokens=special, show_progress=False)
    sentences = load_essays().sentences
    fast.train_from_iterator([*sentences, "0 1 2 3 4 5 6 7 8 9 One of the special"], trainer)
    fast.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    folder = tmp_path_factory.mktemp("metaspace")
    PreTrainedTokenizerFast(
        tokenizer_object=fast, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(folder)
    return Tokenizer.load(str(folder))


@pytest.fixture(params=TOKENIZERS)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    """Each tokenizer in turn."""
    found: Tokenizer = request.getfixturevalue(request.param)
    return found


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
