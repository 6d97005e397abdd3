"""The draft/verify benchmark's rows and report, from made-up generations and on a tiny pair."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiny import needle_prompt, tiny_model, tiny_tokenizer

from harness.analysis.draft_verify import Row, to_row, to_text
from harness.engines.base import EngineSpec, Sampling
from harness.errors import ConfigError
from harness.methods.base import MethodContext
from harness.models.tokenizer import Tokenizer
from harness.run.bench.draft_verify import (
    SWEEP,
    DraftVerifyOptions,
    _Length,
    bench_draft_verify,
)


class Haystacks:
    """Needle prompts of a tiny tokenizer, with a score that only reads the text's length."""

    def __init__(self, tokenizer: Tokenizer, count: int) -> None:
        self.examples = [
            type("Example", (), {"prompt": prompt, "sampling": Sampling(max_tokens=4)})
            for prompt in (needle_prompt(tokenizer, 20, seed=i) for i in range(count))
        ]

    def score(self, example: object, text: str) -> dict[str, float]:
        """Whether anything came out."""
        return {"any": float(bool(text))}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    """One length at two thresholds, draft and verifier with identical weights."""
    from harness.engines.hf.engine import HfEngine, standard_prefill
    from harness.engines.hf.model import load_model
    from harness.methods.draft_verify.strategy import DraftVerifyPrefill

    folder: Path = tmp_path_factory.mktemp("tiny")
    tiny_model(folder)
    tokenizer = tiny_tokenizer(folder)
    spec = EngineSpec("hf", str(folder), "float32", 4096)
    model = load_model(spec)
    options = DraftVerifyOptions(None, str(folder), str(folder), (400,), 6, 1, (0.88, 0.92, 1.01))
    length = _Length(
        options,
        400,
        Haystacks(tokenizer, 7),  # type: ignore[arg-type]
        MethodContext(tokenizer, speculator=str(folder)),
        HfEngine(spec, model, standard_prefill),
        HfEngine(spec, model, DraftVerifyPrefill()),
    )
    said: list[str] = []
    found = [to_row(measured) for measured in length.measure(said.append)]
    assert len(said) == 7
    return found


def test_rows_hold_what_was_measured(rows: list[Row]) -> None:
    """Accepted at 0.92 and refused above 1; the same tokens as full prefill in both."""
    _, accepted, refused = rows
    assert (accepted.acceptance_rate, refused.acceptance_rate) == (1.0, 0.0)
    assert accepted.same_tokens == refused.same_tokens == 1.0
    assert accepted.fallback_rate == 0.0
    assert accepted.runs == 6  # the warm-up prompt does not count
    assert accepted.ttft_ms.low <= accepted.ttft_ms.estimate <= accepted.ttft_ms.high
    assert accepted.full_ms == refused.full_ms


def test_thresholds_that_decide_alike_share_a_run(rows: list[Row]) -> None:
    """0.88 and 0.92 accept everything: each prompt ran once for both; 1.01 ran on its own."""
    low, high, refused = rows
    assert low.timed + high.timed == low.runs
    assert low.timed > 0 < high.timed  # which of them runs turns from prompt to prompt
    assert refused.timed == refused.runs
    assert low.ttft_ms == high.ttft_ms != refused.ttft_ms
    assert "12 of the 18 drafted prefills were run" in to_text(rows)


def test_the_report_shows_quality_beside_acceptance(rows: list[Row]) -> None:
    """Every threshold has a line; the proxy is called one; JSON carries the rows."""
    text = to_text(rows)
    assert "identity" in text
    assert "proxy" in text
    assert "95 % intervals" in text
    assert sum(line.split()[:1] == ["400"] for line in text.splitlines()) == 3
    plain = json.loads(json.dumps([row.to_json() for row in rows]))
    assert plain[0]["ttft_ms"]["low"] is not None
    assert "NaN" not in json.dumps(plain)


def test_the_sweep_has_the_published_thresholds() -> None:
    """0.92 and 0.88 are always among the defaults."""
    assert {0.88, 0.92} <= set(SWEEP)


@pytest.mark.parametrize(
    ("changes", "word"),
    [({"num_runs": 0}, "num-runs"), ({"prompt_lengths": (0,)}, "prompt-lengths")],
)
def test_bad_options_stop_before_a_model_is_loaded(changes: dict, word: str) -> None:
    """One line that names the option."""
    given = {"prompt_lengths": (512,), "num_runs": 1, "warmup": 0, **changes}
    options = DraftVerifyOptions(preset=None, draft=None, verifier=None, **given)
    with pytest.raises(ConfigError, match=word):
        bench_draft_verify(options, print)
