"""Merging windows: exact where it can be, and never lifting an irrelevant window."""

from __future__ import annotations

import pytest
import torch

from harness.engines.scorer import ScoringConfig
from harness.methods.specprefill.importance import row_importance
from harness.methods.specprefill.window_merge import SeparateMerge, TailMerge, make_merge
from harness.methods.specprefill.windows import Window, WindowPlan, plan_windows
from harness.schema.prompts import Span

HEADS, ROWS, LENGTH = 3, 4, 300


def logits_of(seed=0, length=LENGTH):
    """Random logits of a whole prompt, [H, N, M], and of the look-ahead keys."""
    generator = torch.Generator().manual_seed(seed)
    draw = 3 * torch.randn(HEADS, ROWS, length + ROWS - 1, generator=generator)
    return draw[..., :length], draw[..., length:]


def run(merge, plan, layers, shifts=None):
    """Feed each window its part of each layer's logits, last window first, and merge."""
    for index in reversed(range(len(plan.windows))):
        window = plan.windows[index]
        where = torch.tensor(window.tokens(range(plan.length)))
        shift = 0 if shifts is None else shifts[index]
        for layer, (logits, ahead) in enumerate(layers):
            merge.add(window, layer, logits[..., where] + shift, ahead + shift)
    return merge.rows()


def tail_plan(config):
    """Plan of several windows over LENGTH tokens."""
    plan = plan_windows(LENGTH, 90, config, has_bos=True, tail_tokens=16)
    assert len(plan.windows) >= 6
    return plan


@pytest.mark.parametrize("merge", ["joint", "anchor"])
@pytest.mark.parametrize("normalize", ["prompt", "visible"])
def test_context_free_logits_merge_to_the_single_pass(merge, normalize):
    """Where windows do not change a token's logits, merging gives one pass's scores exactly."""
    config = ScoringConfig(look_ahead=ROWS, merge=merge, normalize=normalize)
    layers = [logits_of(0), logits_of(1)]
    want = torch.maximum(*(row_importance(a, config, b) for a, b in layers))
    plan = tail_plan(config)
    got = run(TailMerge(plan, config), plan, layers)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-7)


def test_anchor_ignores_a_window_wide_offset():
    """A window whose logits are all higher by a constant gains nothing under anchor."""
    config = ScoringConfig(look_ahead=ROWS, merge="anchor")
    plan = tail_plan(config)
    layers = [logits_of(2)]
    plain = run(TailMerge(plan, config), plan, layers)
    shifted = run(TailMerge(plan, config), plan, layers, [5.0, 0, -4.0, 0, 2.0, *[0.0] * 20])
    torch.testing.assert_close(shifted, plain, rtol=1e-4, atol=1e-7)


def test_joint_sees_a_window_wide_offset():
    """The counterpart: joint takes logits as they are, so that this test can fail."""
    config = ScoringConfig(look_ahead=ROWS, merge="joint")
    plan = tail_plan(config)
    layers = [logits_of(2)]
    plain = run(TailMerge(plan, config), plan, layers)
    shifted = run(TailMerge(plan, config), plan, layers, [5.0, *[0.0] * 20])
    assert not torch.allclose(shifted, plain, rtol=1e-2)


@pytest.mark.parametrize("merge", ["joint", "anchor"])
def test_an_irrelevant_window_stays_low(merge):
    """A needle outweighs the best of a flat window; per-window scaling would make them equal."""
    config = ScoringConfig(look_ahead=ROWS, merge=merge, pool_kernel=0)
    logits, ahead = torch.zeros(HEADS, ROWS, LENGTH), torch.zeros(HEADS, ROWS, ROWS - 1)
    logits[..., 100] = 6.0
    plan = tail_plan(config)
    rows = run(TailMerge(plan, config), plan, [(logits, ahead)])
    assert rows[:, 100].min() > 100 * rows[:, 200:280].max()


def test_minmax_keeps_each_windows_own_softmax():
    """Under minmax a token's score is its probability inside its own window."""
    config = ScoringConfig(look_ahead=ROWS, merge="minmax", pool_kernel=0)
    plan = tail_plan(config)
    logits, ahead = logits_of(3)
    rows = run(TailMerge(plan, config), plan, [(logits, ahead)])
    window = plan.windows[1]
    where = torch.tensor(window.tokens(range(LENGTH)))
    own = logits[..., where].softmax(-1).amax(0)
    (span,) = window.contributes
    torch.testing.assert_close(rows[:, span.start : span.stop], own[:, window.local(span)])


def test_pooling_crosses_window_borders():
    """A peak at a border spreads into the neighbouring window's tokens."""
    config = ScoringConfig(look_ahead=ROWS, pool_kernel=13)
    plan = tail_plan(config)
    border = plan.windows[0].contributes[0].stop
    logits, ahead = torch.zeros(HEADS, ROWS, LENGTH), torch.zeros(HEADS, ROWS, ROWS - 1)
    logits[..., border - 1] = 9.0
    rows = run(TailMerge(plan, config), plan, [(logits, ahead)])
    assert rows[:, border + 5].min() > 50 * rows[:, border + 6].max()


def test_window_end_takes_each_windows_own_rows():
    """Each window's tokens have that window's scores; missing rows leave every mean unchanged."""
    config = ScoringConfig(look_ahead=ROWS, window=100, window_query="window_end", pool_kernel=0)
    plan = plan_windows(LENGTH, 200, config, has_bos=False)
    merge = make_merge(plan, config)
    assert isinstance(merge, SeparateMerge)
    counts = [4, 2, 1, 3, 4]
    wanted = []
    for index, window in enumerate(plan.windows):
        logits = logits_of(index, len(window))[0][:, : counts[index]]
        merge.add(window, 0, logits)
        (span,) = window.contributes
        wanted.append(row_importance(logits, config)[:, window.local(span)])
    rows = merge.rows()
    assert rows.shape == (ROWS, LENGTH)
    for look_ahead in range(1, ROWS + 1):
        want = torch.cat([w[:look_ahead].mean(0) for w in wanted])
        torch.testing.assert_close(rows[:look_ahead].mean(0), want)


def test_one_window_is_no_merge():
    """A prompt that fits gives the plain importance."""
    config = ScoringConfig(look_ahead=ROWS)
    plan = WindowPlan(LENGTH, (Window((Span(0, LENGTH),), (Span(0, LENGTH),)),))
    logits, ahead = logits_of(4)
    rows = run(make_merge(plan, config), plan, [(logits, ahead)])
    torch.testing.assert_close(rows, row_importance(logits, config, ahead))
