"""Aborted scoring requests: the speculator lives on, scores as a fresh one, keeps nothing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from tiny import tiny_model, tiny_tokenizer

from harness.engines.base import EngineSpec
from harness.engines.scorer import ScoreRequest, Scores, ScoringConfig
from harness.methods.specprefill.vllm.passes import Pass
from harness.methods.specprefill.vllm.scorer import VllmScorer

pytestmark = pytest.mark.engine

# Steps of 32 tokens; 33 blocks of 128 tokens, of which a few long decodes take all.
OPTIONS = (("max_num_batched_tokens", 32), ("max_num_seqs", 24), ("kv_tokens", 4097))
PROMPT = tuple((7 * i * i + 13 * i) % 500 + 1 for i in range(300))


@pytest.fixture(scope="module")
def scorer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmScorer]:
    """A small random speculator, float32."""
    folder = tmp_path_factory.mktemp("aborts")
    tiny_tokenizer(folder)
    tiny_model(folder, hidden=256)
    spec = EngineSpec("vllm", str(folder), "float32", 4096, options=OPTIONS)
    with VllmScorer.open(spec) as scorer:
        yield scorer


@pytest.fixture(scope="module")
def fresh(scorer: VllmScorer) -> Scores:
    """What the prompt scores before anything has been aborted."""
    return score(scorer)


def score(scorer: VllmScorer) -> Scores:
    """Scores of the reference prompt, three rows."""
    config = ScoringConfig(look_ahead=3, ignore_eos=True)
    return next(iter(scorer.score([ScoreRequest("reference", PROMPT, config)])))


def census(scorer: VllmScorer) -> dict[str, int]:
    """What the worker has counted, and what it holds."""
    (found,) = scorer._host.rpc("specprefill_census")
    return found


def add(scorer: VllmScorer, length: int, count: int) -> str:
    """Queue a scoring request; its internal id."""
    config = ScoringConfig(look_ahead=count, ignore_eos=True)
    tokens = tuple((i * i + length) % 500 + 1 for i in range(length))
    return scorer._add(Pass(tokens, config, count))[1]


def unharmed(scorer: VllmScorer, fresh: Scores) -> None:
    """The next request scores as it did at first, and nothing of the aborted ones is kept."""
    again = score(scorer)
    assert again.look_ahead_tokens == fresh.look_ahead_tokens
    assert np.abs(again.rows - fresh.rows).max() <= 1e-6
    assert census(scorer)["held"] == 0


def test_an_abort_in_mid_prefill(scorer, fresh):
    """Of 4,000 tokens in steps of 32 few have run: dropped, and the next request is scored."""
    before = census(scorer)
    name = add(scorer, 4000, 8)
    while census(scorer)["held"] == 0:  # until the worker has taken it up
        pass
    scorer._host.abort([name])
    unharmed(scorer, fresh)
    after = census(scorer)
    assert after["dropped"] == before["dropped"] + 1
    assert after["scored"] == before["scored"] + 1  # the reference prompt


def test_an_abort_after_a_preemption(scorer, fresh):
    """Requests that outgrow the cache: the preempted ones are aborted among the others."""
    before = census(scorer)
    names = [add(scorer, 100, 3000) for _ in range(24)]
    while census(scorer)["preempted"] == before["preempted"]:
        pass  # a preempted request waits until another has ended, and none will
    taken_up = census(scorer)["held"]
    scorer._host.abort(names)
    unharmed(scorer, fresh)
    after = census(scorer)
    assert after["dropped"] >= before["dropped"] + taken_up
    assert taken_up > 1
    assert after["scored"] == before["scored"] + 1


def test_ctrl_c_while_scoring(scorer, fresh, monkeypatch):
    """The caller is interrupted: its requests are aborted and given back, the engine lives."""
    config = ScoringConfig(look_ahead=2, ignore_eos=True)
    requests = [
        ScoreRequest("short", PROMPT[:40], config),
        ScoreRequest("long", PROMPT * 12, config),
    ]
    step = scorer._host.step

    def interrupted() -> list[object]:
        outputs = step()
        if outputs:  # the short one has ended
            raise KeyboardInterrupt
        return outputs

    monkeypatch.setattr(scorer._host, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(scorer.score(requests))
    monkeypatch.undo()
    assert census(scorer)["held"] == 0
    unharmed(scorer, fresh)
