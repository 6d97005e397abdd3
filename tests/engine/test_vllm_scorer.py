"""The speculator in vLLM against eager attention in transformers, float32."""

from __future__ import annotations

import numpy as np
import pytest
from engine.cases import make_cases

from harness.specprefill.config import ScoringConfig
from harness.specprefill.scorer import ScoreRequest
from harness.tokenizer import Tokenizer

pytestmark = pytest.mark.engine

TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def cases(smollm2_path):
    """Eight prompts."""
    return make_cases(Tokenizer.load(str(smollm2_path)))


@pytest.mark.parametrize(
    "config",
    [
        ScoringConfig(look_ahead=1),
        ScoringConfig(look_ahead=8),
        ScoringConfig(look_ahead=4, normalize="visible", pool_edges="clipped"),
        ScoringConfig(look_ahead=5, pool_kernel=0, ignore_eos=True),
    ],
    ids=["last-row", "eight-rows", "visible-clipped", "unpooled"],
)
def test_rows_equal_eager_attention(vllm_scorer, reference, cases, config):
    """Every row of a batch, chunked prefill included, to 1e-5, with the same look-ahead."""
    chosen = [cases[0], cases[-1], cases[3]]
    requests = [ScoreRequest(case.name, case.tokens, config) for case in chosen]
    for case, scores in zip(chosen, vllm_scorer.score(iter(requests)), strict=True):
        rows, ahead = reference.rows(case.tokens, config)
        assert scores.example_id == case.name
        assert scores.look_ahead_tokens == ahead
        assert scores.rows.shape == tuple(rows.shape)
        assert np.abs(scores.rows - rows.numpy()).max() <= TOLERANCE
        assert scores.counters["rows_captured"] == len(rows)
