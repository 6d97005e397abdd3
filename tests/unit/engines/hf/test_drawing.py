"""Sampling options reach the token that is drawn."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import torch

from harness.engines.base import Sampling
from harness.engines.hf.drawing import Drawing

LOGITS = torch.tensor([2.0, 1.9, 1.0, 0.5, -1.0])
HOT = Sampling(8, temperature=1.5)


def drawn(sampling: Sampling, *, prompt: tuple[int, ...] = (), times: int = 300) -> Counter[int]:
    """How often each token is drawn, by as many seeds."""
    seeded = (replace(sampling, seed=seed) for seed in range(times))
    return Counter(Drawing(one, prompt, ())(LOGITS, ()) for one in seeded)


def test_without_bounds_every_token_comes() -> None:
    """The other tests show a bound, not a small sample."""
    assert set(drawn(HOT)) == {0, 1, 2, 3, 4}


@pytest.mark.parametrize(
    ("sampling", "tokens"),
    [
        (replace(HOT, top_k=1), {0}),
        (replace(HOT, top_k=2), {0, 1}),
        (replace(HOT, top_p=0.3), {0}),
        (replace(HOT, top_p=0.6), {0, 1}),
        (replace(HOT, min_p=0.9), {0, 1}),
        (replace(HOT, min_p=1.0), {0}),
        (replace(HOT, top_k=3, top_p=0.5), {0, 1}),
    ],
)
def test_bounds_hold(sampling: Sampling, tokens: set[int]) -> None:
    """Only what a bound leaves is drawn, and all of it; top_k 1 is greedy at any temperature."""
    assert set(drawn(sampling)) == tokens


def test_a_repetition_penalty_counts_in_greedy_decoding() -> None:
    """A token of the prompt or the text loses; without a penalty it stays the best."""
    penalty = Sampling(8, repetition_penalty=1.5)
    assert Drawing(Sampling(8), (0,), ())(LOGITS, (0,)) == 0
    assert Drawing(penalty, (0,), ())(LOGITS, ()) == 1
    assert Drawing(penalty, (), ())(LOGITS, (0,)) == 1
    assert Drawing(penalty, (0, 1), ())(LOGITS, ()) == 0


def test_end_tokens_wait() -> None:
    """Before ``min_tokens`` no end token is drawn, the next best is; then it may come."""
    patient = Sampling(8, end_tokens=(0,), min_tokens=1)
    assert Drawing(patient, (), (0, 1))(LOGITS, ()) == 2
    assert Drawing(patient, (), (0, 1))(LOGITS, (2,)) == 0
    assert set(drawn(replace(HOT, min_tokens=1), times=50)) <= {0, 1, 2, 3, 4}


def test_logits_are_left_as_they_are() -> None:
    """The log probabilities in records are the model's own."""
    before = LOGITS.clone()
    for sampling in (replace(HOT, top_k=1), Sampling(8, repetition_penalty=2.0, min_tokens=2)):
        Drawing(sampling, (0,), (0,))(LOGITS, ())
    assert torch.equal(LOGITS, before)
