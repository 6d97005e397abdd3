"""The embedded model behind another tokenizer keeps nearly the same text."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers, trainers

from harness.catalogue import resolve
from harness.engines.base import EngineSpec
from harness.examples import load_examples
from harness.methods.base import MethodContext
from harness.methods.specprefill import SpecPrefill
from harness.paths import package_or_checkout
from harness.specprefill.config import SpecPrefillConfig
from harness.specprefill.hf_scorer import HfScorer
from harness.tokenizer import Tokenizer

pytestmark = [pytest.mark.engine, pytest.mark.long]


@pytest.fixture(scope="module")
def other_path(smollm2_path, tmp_path_factory):
    """The embedded model with merges learnt from other text.

    Only merges whose result the model's vocabulary knows are taken, so that every token keeps
    its id and its embedding, and texts are cut differently.
    """
    raw = json.loads((smollm2_path / "tokenizer.json").read_text())
    vocab = raw["model"]["vocab"]
    trained = Backend(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=1500, initial_alphabet=alphabet, show_progress=False)
    essays = sorted((package_or_checkout("tasks") / "ruler" / "essays").iterdir())
    trained.train_from_iterator((path.read_text() for path in essays[:6]), trainer)
    known = set(alphabet)
    merges = []
    for left, right in json.loads(trained.to_str())["model"]["merges"]:
        if left in known and right in known and left + right in vocab:
            merges.append([left, right])
            known.add(left + right)
    raw["model"]["merges"] = merges
    folder = tmp_path_factory.mktemp("other")
    for path in smollm2_path.iterdir():
        if path.name not in ("tokenizer.json", "manifest.json"):
            (folder / path.name).symlink_to(path)
    (folder / "tokenizer.json").write_text(json.dumps(raw))
    return folder


def kept_characters(prepared, tokenizer, text):
    """Which characters of the prompt are kept."""
    _, offsets = tokenizer.encode_with_offsets(text)
    kept = np.zeros(len(text), dtype=bool)
    for index in prepared.positions:
        kept[slice(*offsets[index])] = True
    return kept


def test_nearly_the_same_selection(smollm2_path, other_path):
    """Of the text kept with the own tokenizer most is kept with the other; chance keeps a fifth."""
    tokenizer, other = (Tokenizer.load(str(path)) for path in (smollm2_path, other_path))
    (task,) = resolve(["ruler_niah_single_2"])
    examples = load_examples(
        task, length=700, seed=0, limit=4, tokenizer=tokenizer, max_positions=2048
    ).examples
    prompts = [example.prompt for example in examples]
    assert len(other.encode(prompts[0].text)) > 1.1 * len(prompts[0].token_ids)
    method = SpecPrefill(SpecPrefillConfig(keep=0.2))
    shares = []
    with HfScorer.open(EngineSpec("hf", str(smollm2_path), "float32", 2048)) as scorer:
        own, mapped = (
            list(
                method.prepare(
                    prompts,
                    MethodContext(tokenizer=tokenizer, scorer=scorer, speculator=str(path)),
                )
            )
            for path in (smollm2_path, other_path)
        )
    for prompt, a, b in zip(prompts, own, mapped, strict=True):
        first, second = (kept_characters(p, tokenizer, prompt.text) for p in (a, b))
        shares.append((first & second).sum() / first.sum())
        assert b.receipt.details["speculator_tokens"] != len(prompt.token_ids)
    assert np.mean(shares) >= 0.6, shares
