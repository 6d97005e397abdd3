"""Tensor parallelism over two ranks, on a small random model whose heads divide by two."""

from __future__ import annotations

import numpy as np
import pytest
from engine.reference import Reference
from tiny import tiny_model, tiny_tokenizer

from harness.engines.base import EngineSpec, Sampling
from harness.engines.scorer import ScoreRequest, ScoringConfig
from harness.engines.vllm.engine import VllmEngine
from harness.methods.specprefill.config import SelectionConfig
from harness.methods.specprefill.selection import select
from harness.methods.specprefill.vllm.scorer import VllmScorer
from harness.schema.prompts import PreparedPrompt
from harness.schema.receipts import Receipt, Status

pytestmark = [pytest.mark.engine, pytest.mark.long]

OPTIONS = (("tensor_parallel", 2), ("max_num_batched_tokens", 128))
PROMPTS = [tuple((7 * i * i + 13 * i + seed) % 500 + 1 for i in range(300)) for seed in range(4)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Four heads of 64, two key heads: two and one a rank."""
    folder = tmp_path_factory.mktemp("parallel")
    tiny_tokenizer(folder)
    tiny_model(folder, hidden=256)
    return folder


@pytest.fixture(scope="module")
def spec(folder):
    """Two ranks, float32, prefill in chunks."""
    return EngineSpec("vllm", str(folder), "float32", 1024, options=OPTIONS)


@pytest.fixture(scope="module")
def transformers(folder):
    """The same model in one process."""
    return Reference(folder)


def test_two_ranks_place_tokens_as_one(spec, transformers):
    """Sparse requests in a batch: transformers' tokens, log probabilities to 1e-4."""
    kept = tuple(i for i in range(300) if i // 32 in {0, 3, 4, 9})
    prompts = [
        PreparedPrompt(
            str(number),
            tuple(tokens[i] for i in kept),
            kept,
            len(tokens),
            Receipt("test", Status.ACTIVE),
        )
        for number, tokens in enumerate(PROMPTS)
    ]
    with VllmEngine.open(spec) as engine:
        sampling = Sampling(max_tokens=16, ignore_eos=True, logprobs=True)
        found = {g.example_id: g for g in engine.generate(iter(prompts), sampling)}
    for prompt in prompts:
        tokens, logprobs = transformers.generate(prompt.token_ids, kept, 300, 16)
        generation = found[prompt.example_id]
        assert list(generation.token_ids) == tokens
        assert generation.logprobs == pytest.approx(logprobs, abs=1e-4)
        assert generation.counters["positions_applied"] >= 16


def test_two_ranks_score_as_one(spec, transformers):
    """The maximum over ranks is the maximum over heads: 5e-5, and the same selection."""
    config = ScoringConfig(look_ahead=4, ignore_eos=True)
    requests = [ScoreRequest(str(n), tokens, config) for n, tokens in enumerate(PROMPTS)]
    with VllmScorer.open(spec) as scorer:
        found = list(scorer.score(requests))
    for tokens, scores in zip(PROMPTS, found, strict=True):
        rows, ahead = transformers.rows(tokens, config)
        assert scores.look_ahead_tokens == ahead
        assert np.abs(scores.rows - rows.numpy()).max() <= 5e-5
        wanted = select(rows.numpy().mean(axis=0), SelectionConfig(keep=0.3))
        assert select(scores.importance(4), SelectionConfig(keep=0.3)).kept == wanted.kept
