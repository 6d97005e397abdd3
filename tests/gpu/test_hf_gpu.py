"""The transformers engine and scorer on a GPU give what they give on a CPU."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from harness.engines.base import EngineSpec, Sampling
from harness.engines.hf.engine import HfEngine
from harness.engines.scorer import ScoreRequest, ScoringConfig
from harness.methods.specprefill.hf_scorer import HfScorer
from harness.models.embedded import prepare_smollm2
from harness.schema.prompts import PreparedPrompt
from harness.schema.receipts import Receipt, Status

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"),
]


def spec(device):
    """The embedded model in float32 on a device."""
    return EngineSpec("hf", str(prepare_smollm2()), "float32", 4096, options=(("device", device),))


def prompts(count=4):
    """Sparse prompts of known tokens, two fifths kept."""
    draw = random.Random(0)
    kept = (*range(64), *range(300, 400))
    for number in range(count):
        ids = [draw.randrange(100, 40_000) for _ in range(400)]
        receipt = Receipt("test", Status.ACTIVE)
        yield PreparedPrompt(f"p{number}", tuple(ids[i] for i in kept), kept, len(ids), receipt)


def test_same_tokens():
    """Greedy tokens at gapped positions agree, with log probabilities within 1e-3."""
    greedy = Sampling(max_tokens=12, ignore_eos=True, logprobs=True)
    found = []
    for device in ("cpu", "cuda"):
        with HfEngine.open(spec(device)) as engine:
            assert engine.identity["device"].startswith(device)
            found.append(list(engine.generate(prompts(), greedy)))
    for cpu, gpu in zip(*found, strict=True):
        assert cpu.token_ids == gpu.token_ids
        assert cpu.logprobs == pytest.approx(gpu.logprobs, abs=1e-3)


def test_same_scores():
    """Rows agree to 1e-5 in one window and in several."""
    for config in (ScoringConfig(look_ahead=4), ScoringConfig(look_ahead=2, window=128)):
        rows = []
        for device in ("cpu", "cuda"):
            with HfScorer.open(spec(device)) as scorer:
                request = ScoreRequest("x", tuple(range(200, 600)), config)
                rows += [scores.rows for scores in scorer.score([request])]
        assert np.abs(rows[0] - rows[1]).max() <= 1e-5
