"""The arms of SpecPrefill under baselines/: the paper's configurations and the guide's."""

from __future__ import annotations

import numpy as np
import pytest

from harness.methods.arms import build_method, load_arm
from harness.methods.specprefill.config import Ends, SpecPrefillConfig
from harness.methods.specprefill.selection import select


def config_of(name) -> SpecPrefillConfig:
    """Return an arm's configuration."""
    arm = load_arm(name)
    return build_method(arm.method, arm.options).config


@pytest.mark.parametrize("tenths", [1, 3, 5, 7, 9])
@pytest.mark.parametrize(
    ("kind", "chunk", "pool", "look_ahead"),
    [("plain", 1, 0, 1), ("full", 32, 13, 1), ("full-lah4", 32, 13, 4), ("full-lah8", 32, 13, 8)],
)
def test_paper_arms(*, tenths, kind, chunk, pool, look_ahead):
    """Each has the paper's rate, chunk, pooling and look-ahead, and forces no token."""
    config = config_of(f"specprefill-p{tenths}-{kind}")
    assert config.keep == tenths / 10
    assert (config.chunk, config.pool_kernel, config.look_ahead) == (chunk, pool, look_ahead)
    assert config.always_keep == Ends(first=0, last=0)
    assert config.select == "rate"
    assert config.pool_edges == "padded"


def test_llamacpp_server():
    """The guide's server mode, value by value."""
    config = config_of("specprefill-llamacpp-server")
    assert (config.select, config.mass, config.max_keep) == ("mass", 0.85, 2000)
    assert (config.boost.first.tokens, config.boost.first.factor) == (64, 1.5)
    assert (config.boost.last.tokens, config.boost.last.factor) == (128, 1.3)
    assert (config.look_ahead, config.normalize, config.pool_kernel) == (3, "visible", 0)
    assert (config.window, config.window_query) == ("auto", "window_end")
    assert config.always_keep == Ends(first=4, last=2, template=True)
    assert (config.min_tokens, config.break_even, config.safety) == (8192, True, 1.2)
    assert config.tool_guard
    assert config.normalize_scores == "minmax"


def test_llamacpp_standalone():
    """The guide's tool: a fixed 30 %, five query rows."""
    config = config_of("specprefill-llamacpp-standalone")
    assert (config.select, config.keep, config.max_keep) == ("rate", 0.3, 2000)
    assert (config.look_ahead, config.window) == (5, "auto")
    # Its minimum, min(128, max(4, M / 10)), never binds where 30 % are kept.
    assert config.min_keep == 0
    for length in (3, 4, 5, 150, 300, 2000):
        kept = len(select(np.arange(1.0, length + 1, dtype=np.float32), config).kept)
        assert kept >= min(128, max(min(4, length), length // 10))
    assert not config.tool_guard
    assert config.min_tokens == 0
