"""The speculator in vLLM against eager attention in transformers, float32."""

from __future__ import annotations

import numpy as np
import pytest
from engine.cases import make_cases

from harness.engines.base import EngineSpec
from harness.engines.scorer import ScoreRequest, ScoringConfig
from harness.methods.specprefill.hf_scorer import HfScorer
from harness.models.tokenizer import Tokenizer

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


@pytest.mark.parametrize(
    "config",
    [
        ScoringConfig(look_ahead=4, window=192),
        ScoringConfig(look_ahead=3, window=192, merge="joint", normalize="visible"),
        ScoringConfig(look_ahead=2, window=192, window_query="window_end"),
    ],
    ids=["anchor", "joint-visible", "window-end"],
)
def test_windows_equal_the_reference_scorer(vllm_scorer, hf_scorer, cases, config):
    """A prompt beyond the window: same windows, look-ahead and merged rows as transformers."""
    request = ScoreRequest("long", cases[-1].tokens, config, tail_tokens=24)
    (found,) = vllm_scorer.score([request])
    (wanted,) = hf_scorer.score([request])
    assert found.windows == wanted.windows > 3
    assert found.look_ahead_tokens == wanted.look_ahead_tokens
    assert np.abs(found.rows - wanted.rows).max() <= TOLERANCE


@pytest.fixture(scope="module")
def hf_scorer(smollm2_path):
    """The reference scorer in plain transformers."""
    scorer = HfScorer.open(EngineSpec("hf", str(smollm2_path), "float32", 2304))
    yield scorer
    scorer.close()


def test_an_end_of_sequence_ends_the_rows(vllm_scorer, smollm2_path):
    """Look-ahead stops at an EOS, which is no row; ignore_eos goes on to the full count."""
    tokenizer = Tokenizer.load(str(smollm2_path))
    text = tokenizer.chat([{"role": "user", "content": "Say hi."}], answer_prefix="Hi!")
    tokens = tokenizer.encode(text)
    stopping = ScoreRequest("stop", tokens, ScoringConfig(look_ahead=64))
    going_on = ScoreRequest("on", tokens, ScoringConfig(look_ahead=64, ignore_eos=True))
    stopped, went_on = vllm_scorer.score([stopping, going_on])
    assert 1 <= len(stopped.rows) < 64
    assert len(stopped.look_ahead_tokens) == len(stopped.rows) - 1
    assert tokenizer.hf.eos_token_id not in stopped.look_ahead_tokens
    assert len(went_on.rows) == 64
    assert np.array_equal(stopped.rows[0], went_on.rows[0])


def test_the_whole_range_is_used(vllm_scorer, cases):
    """Eight rows fit where the last look-ahead token has the range's last position."""
    tokens = [token for case in cases for token in case.tokens] * 2
    limit, config = vllm_scorer.max_positions, ScoringConfig(look_ahead=8, ignore_eos=True)
    fits = ScoreRequest("fits", tuple(tokens[: limit - 7]), config)
    beyond = ScoreRequest("beyond", tuple(tokens[: limit - 6]), config)
    whole, cut = vllm_scorer.score([fits, beyond])
    assert (whole.windows, whole.rows.shape) == (1, (8, limit - 7))
    assert (cut.windows, cut.rows.shape) == (2, (8, limit - 6))
    assert np.isfinite(cut.rows).all()
