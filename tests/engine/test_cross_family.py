"""The embedded model behind another tokenizer keeps nearly the same text."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers, trainers

from harness.engines.base import EngineSpec
from harness.methods.base import MethodContext
from harness.methods.specprefill.config import SpecPrefillConfig
from harness.methods.specprefill.hf_scorer import HfScorer
from harness.methods.specprefill.method import SpecPrefill
from harness.methods.specprefill.score_cache import ScoreCache
from harness.methods.specprefill.selection import merged_importance
from harness.models.tokenizer import Tokenizer
from harness.paths import package_or_checkout
from harness.tasks.catalogue import resolve
from harness.tasks.examples import load_examples

pytestmark = pytest.mark.engine

LENGTH, KEEP, CHUNK = 1400, 0.25, 32


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
    trainer = trainers.BpeTrainer(vocab_size=6000, initial_alphabet=alphabet, show_progress=False)
    essays = sorted((package_or_checkout("tasks") / "ruler" / "essays").iterdir())
    trained.train_from_iterator((path.read_text() for path in essays), trainer)
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


def prepare(examples, tokenizer, scorer, speculator):
    """Prompts under the method, with the scores that the own tokenizer's pass leaves behind."""
    # The template's tokens are kept across families anyway: so that both force the same.
    ends = {"first": 0, "last": 1, "template": True}
    config = SpecPrefillConfig(keep=KEEP, chunk=CHUNK, always_keep=ends)
    context = MethodContext(tokenizer, scorer, str(speculator))
    prompts = [example.prompt for example in examples]
    prepared = list(SpecPrefill(config).prepare(prompts, context))
    cache = ScoreCache.of(context.memo)
    scores = [cache.get(prompt.token_ids, config.scoring()) for prompt in prompts]
    return prepared, [s and merged_importance(s, config) for s in scores]


def by_chunk(importance):
    """Sum of the scores of each chunk."""
    return np.add.reduceat(importance.astype(float), np.arange(0, len(importance), CHUNK))


def test_nearly_the_same_selection(smollm2_path, other_path):
    """Beside what is forced, the mapped choice holds nearly all the importance of the own one.

    Chunks of filler with nearly equal scores change places, so chunks agree less than importance
    does: two thirds, where chance would give a fifth. The needle is kept by both.
    """
    tokenizer, other = (Tokenizer.load(str(path)) for path in (smollm2_path, other_path))
    (task,) = resolve(["ruler_niah_single_2"])
    examples = load_examples(
        task, length=LENGTH, seed=0, limit=4, tokenizer=tokenizer, max_positions=2048
    ).examples
    with HfScorer.open(EngineSpec("hf", str(smollm2_path), "float32", 2048)) as scorer:
        own, importances = prepare(examples, tokenizer, scorer, smollm2_path)
        mapped, _ = prepare(examples, tokenizer, scorer, other_path)
    overlaps, shares, chances = [], [], []
    for example, a, b, importance in zip(examples, own, mapped, importances, strict=True):
        prompt = example.prompt
        assert len(other.encode(prompt.text)) > 1.1 * len(prompt.token_ids)
        assert b.receipt.details["speculator_tokens"] > 1.1 * len(prompt.token_ids)
        last = len(prompt.token_ids) - 1
        forced = {i // CHUNK for i in (*tokenizer.template_tokens(prompt.token_ids), last)}
        first, second = ({i // CHUNK for i in p.positions} - forced for p in (a, b))
        assert len(first) == len(second) >= 5
        sums = by_chunk(importance)
        free = [i for i in range(len(sums)) if i not in forced]
        best = sums[list(first)].sum()
        overlaps.append(len(first & second) / len(first))
        shares.append(sums[list(second)].sum() / best)
        chances.append(sums[free].mean() * len(first) / best)
        (needle,) = example.record.references
        assert all(needle in tokenizer.decode(p.token_ids) for p in (a, b))
    assert np.mean(shares) >= 0.9, (shares, chances)
    assert np.mean(shares) > 1 - 0.3 * (1 - np.mean(chances)), (shares, chances)
    assert np.mean(overlaps) >= 0.5, overlaps
