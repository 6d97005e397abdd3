"""What every engine checks before it takes a request; the fake one checks the same."""

from __future__ import annotations

from typing import Any

import pytest

from harness.engines.admission import admit, admit_pair
from harness.engines.base import EngineSpec, Sampling
from harness.engines.fake import FakeEngine
from harness.errors import ConfigError
from harness.models.embedded import prepare_smollm2
from harness.schema.prompts import PreparedPair, PreparedPrompt
from harness.schema.receipts import Receipt, Status


def prompt(kept: int, *, positions: tuple[int, ...] | None = None, whole: int = 0) -> Any:
    """A prepared prompt of so many tokens."""
    receipt = Receipt("full", Status.ACTIVE)
    return PreparedPrompt("x/1", (7,) * kept, positions, whole or kept, receipt)


def test_positions_are_original_ones() -> None:
    """A prompt of 100 tokens of which two are prefilled reaches as far as all 100."""
    assert admit(prompt(100), 28, 128) == 100
    assert admit(prompt(2, positions=(0, 99), whole=100), 28, 128) == 100
    for sparse in (prompt(100), prompt(2, positions=(0, 99), whole=100)):
        with pytest.raises(ConfigError, match="100 prompt tokens and 29 new ones exceed"):
            admit(sparse, 29, 128)


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        (prompt(0), "no tokens to prefill"),
        (prompt(2, positions=(0,), whole=9), "1 positions for 2 tokens"),
        (prompt(2, positions=(0, 9), whole=9), "lie outside"),
        (prompt(2, positions=(-1, 3), whole=9), "lie outside"),
    ],
)
def test_prompts_that_are_refused(bad: PreparedPrompt, match: str) -> None:
    """Nothing to prefill, or positions that are not the prompt's."""
    with pytest.raises(ConfigError, match=match):
        admit(bad, 1, 128)


def test_a_continuation_needs_room_and_tokens() -> None:
    """Context, continuation and the token after it; an empty one cannot be scored."""
    assert admit_pair(PreparedPair(prompt(252), (1,) * 8), 261) == 252
    with pytest.raises(ConfigError, match=r"252 prompt tokens and 9 new ones exceed .* 260"):
        admit_pair(PreparedPair(prompt(252), (1,) * 8), 260)
    with pytest.raises(ConfigError, match="no tokens to score"):
        admit_pair(PreparedPair(prompt(9), ()), 128)


def test_the_fake_engine_checks_them() -> None:
    """What a real engine would refuse does not pass in tests."""
    engine = FakeEngine.open(EngineSpec("fake", str(prepare_smollm2()), "float32", 64))
    assert len(list(engine.generate([prompt(60)], Sampling(4)))) == 1
    with pytest.raises(ConfigError, match="target's 64 positions"):
        list(engine.generate([prompt(60)], Sampling(5)))
    with pytest.raises(ConfigError, match="target's 64 positions"):
        engine.time_one(prompt(60), Sampling(5))
    with pytest.raises(ConfigError, match="target's 64 positions"):
        list(engine.loglikelihood([PreparedPair(prompt(60), (1, 2, 3, 4))]))
    with pytest.raises(ConfigError, match="no tokens to score"):
        list(engine.loglikelihood([PreparedPair(prompt(60), ())]))
