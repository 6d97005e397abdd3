"""The transformers scorer equals eager attention, in one window and in many."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from engine.cases import make_cases

from harness.engines.base import EngineSpec
from harness.engines.scorer import ScoreRequest, ScoringConfig
from harness.methods.specprefill.config import SelectionConfig
from harness.methods.specprefill.hf_scorer import HfScorer
from harness.methods.specprefill.importance import pool
from harness.methods.specprefill.selection import select
from harness.methods.specprefill.windows import plan_windows
from harness.models.tokenizer import Tokenizer

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def scorer(smollm2_path):
    """The embedded model as speculator in transformers, float32."""
    with HfScorer.open(EngineSpec("hf", str(smollm2_path), "float32", 2048)) as scorer:
        yield scorer


@pytest.fixture(scope="module")
def prompts(smollm2_path):
    """Token ids of eight prompts."""
    return [case.tokens for case in make_cases(Tokenizer.load(str(smollm2_path)))]


def score(scorer, tokens, **options):
    """Score one prompt."""
    (scores,) = scorer.score([ScoreRequest("x", tokens, ScoringConfig(**options))])
    return scores


@pytest.mark.parametrize(
    "options",
    [
        {"look_ahead": 1},
        {"look_ahead": 8, "ignore_eos": True},
        {"look_ahead": 4, "normalize": "visible", "pool_kernel": 0, "ignore_eos": True},
        {"look_ahead": 3, "pool_edges": "clipped", "pool_kernel": 5},
    ],
)
def test_rows_equal_eager_attention(scorer, reference, prompts, options):
    """Every row agrees with transformers' own attention weights to 1e-5, and so do the tokens."""
    config = ScoringConfig(**options)
    for tokens in prompts[:3]:
        got = score(scorer, tokens, **options)
        rows, ahead = reference.rows(tokens, config)
        assert got.look_ahead_tokens == ahead
        assert got.rows.shape == (len(rows), len(tokens))
        assert np.abs(got.rows - rows.numpy()).max() <= 1e-5


def test_selection_equals_eager_attention(scorer, reference, prompts):
    """All eight prompts keep the same tokens as with the reference's scores."""
    config = ScoringConfig(look_ahead=8)
    for tokens in prompts:
        mine = score(scorer, tokens, look_ahead=8).importance(8)
        theirs = reference.rows(tokens, config)[0].mean(0).numpy()
        selection = SelectionConfig(keep=0.2)
        assert select(mine, selection).kept == select(theirs, selection).kept


def test_one_pass_serves_shorter_look_aheads(scorer, prompts):
    """The first rows of a long look-ahead are those of a short one."""
    long = score(scorer, prompts[0], look_ahead=6, ignore_eos=True)
    for n in (1, 3):
        short = score(scorer, prompts[0], look_ahead=n, ignore_eos=True)
        np.testing.assert_allclose(long.rows[:n], short.rows, atol=1e-6)
        np.testing.assert_allclose(long.importance(n), short.importance(n), atol=1e-6)


def test_eos_ends_the_rows_and_is_no_row(scorer, smollm2_path):
    """A prompt whose answer is short has fewer rows; ignore_eos gives all of them."""
    tokenizer = Tokenizer.load(str(smollm2_path))
    text = tokenizer.chat([{"role": "user", "content": "Say only: yes"}])
    tokens = tokenizer.encode(text)
    got = score(scorer, tokens, look_ahead=64)
    assert 1 <= len(got.rows) < 64
    assert len(got.look_ahead_tokens) == len(got.rows) - 1
    assert 2 not in got.look_ahead_tokens
    assert len(score(scorer, tokens, look_ahead=64, ignore_eos=True).rows) == 64


def eager_window_rows(model, plan, tokens, ahead, config):
    """``anchor`` and ``joint``-free reference: merged from eager attention *weights*.

    log p differs from the logits by a constant a row, which the anchor removes.
    """
    layers = None
    for window in plan.windows:
        ids = [*window.tokens(tokens), *ahead]
        with torch.inference_mode():
            out = model(torch.tensor([ids]), output_attentions=True)
        length = len(window)
        log_p = torch.stack([a[0, :, length - 1 :, :length].log() for a in out.attentions])
        anchor = torch.cat([log_p[..., window.local(span)] for span in plan.anchor], dim=-1)
        log_p = log_p - torch.logsumexp(anchor, dim=-1, keepdim=True)
        if layers is None:
            layers = log_p.new_empty((*log_p.shape[:-1], plan.length))
        for span in window.contributes:
            layers[..., span.start : span.stop] = log_p[..., window.local(span)]
    return pool(layers.softmax(-1), config).amax(dim=(0, 1))


def test_windows_equal_a_merge_of_eager_attention(scorer, reference, prompts):
    """Many windows, merged by anchor, agree with weights merged by hand."""
    tokens = prompts[-1]
    options = {"look_ahead": 4, "window": 160, "ignore_eos": True}
    got = score(scorer, tokens, **options)
    config = ScoringConfig(**options)
    plan = plan_windows(len(tokens), 2048, config, has_bos=True)
    assert got.windows == len(plan.windows) >= 6
    rows = eager_window_rows(reference.model, plan, tokens, got.look_ahead_tokens, config)
    assert np.abs(got.rows - rows.numpy()).max() <= 1e-5


@pytest.mark.parametrize(
    "options", [{"merge": "joint"}, {"merge": "minmax"}, {"window_query": "window_end"}]
)
def test_every_merge_scores_every_token(scorer, prompts, options):
    """Scores are finite and positive everywhere."""
    got = score(scorer, prompts[-1], look_ahead=3, window=160, **options)
    assert got.windows >= 5
    assert got.rows.shape[1] == len(prompts[-1])
    assert np.isfinite(got.rows).all()
    assert (got.rows > 0).all()


def test_a_prompt_beyond_the_range_is_scored_in_windows(smollm2_path, prompts):
    """A speculator with 400 positions scores about 1,000 tokens without leaving its range."""
    with HfScorer.open(EngineSpec("hf", str(smollm2_path), "float32", 400)) as scorer:
        assert scorer.max_positions == 400
        got = score(scorer, prompts[-1], look_ahead=8)
    assert got.windows > 1
    assert got.rows.shape[1] == len(prompts[-1])


def test_closing_restores_attention(smollm2_path):
    """The model's attention is its own again, and nothing stays registered."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    before = set(ALL_ATTENTION_FUNCTIONS)
    scorer = HfScorer.open(EngineSpec("hf", str(smollm2_path), "float32", 400))
    model = scorer.model
    assert model.config._attn_implementation.startswith("specprefill")
    scorer.close()
    scorer.close()
    assert model.config._attn_implementation == "sdpa"
    assert set(ALL_ATTENTION_FUNCTIONS) == before
