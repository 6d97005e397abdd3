"""Generation settings: honoured as lm-eval means them, or refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from harness.engines.base import Sampling
from harness.errors import ConfigError
from harness.tasks.sampling import read_sampling


@pytest.mark.parametrize(
    ("kwargs", "expected"),
    [
        ({}, Sampling(256)),
        ({"until": "\n", "max_gen_toks": 5}, Sampling(5, ("\n",))),
        ({"max_new_tokens": 7}, Sampling(7)),
        ({"until": ["a", ""], "temperature": 1.0, "do_sample": False}, Sampling(256, ("a",))),
        ({"temperature": 0.5, "do_sample": True}, Sampling(256, temperature=0.5)),
        ({"temperature": 0.5}, Sampling(256, temperature=0.5)),
        ({"do_sample": True}, Sampling(256, temperature=1.0)),
        ({"do_sample": False, "top_k": 5, "top_p": 0.9}, Sampling(256)),
        ({"temperature": 0, "repetition_penalty": 1.3}, Sampling(256, repetition_penalty=1.3)),
        ({"num_beams": 1}, Sampling(256)),
        ({"do_sample": True, "top_k": -1}, Sampling(256, temperature=1.0)),
        (
            {"do_sample": True, "temperature": 1.5, "top_k": 1, "top_p": 0.9, "min_p": 0.1,
             "seed": 3},
            Sampling(256, temperature=1.5, top_k=1, top_p=0.9, min_p=0.1, seed=3),
        ),
    ],
)  # fmt: skip
def test_settings(kwargs: dict[str, Any], expected: Sampling) -> None:
    """A temperature without sampling is greedy; sampling options reach the engine."""
    assert read_sampling(kwargs, "own") == expected


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"num_beams": 4}, "own: generation_kwargs: num_beams 4 is not honoured"),
        ({"presence_penalty": 0.5}, "presence_penalty 0.5 .*did you mean"),
        ({"max_length": 99}, "max_length"),
        ({"top_kk": 5}, "did you mean 'top_k'"),
        ({"do_sample": True, "top_p": 1.5}, "top_p 1.5 is out of range"),
        ({"do_sample": True, "top_k": 2.5}, "top_k 2.5 is out of range"),
        ({"temperature": -1.0, "do_sample": True}, "temperature -1.0 is out of range"),
        ({"repetition_penalty": -2}, "repetition_penalty -2.0 is out of range"),
        ({"max_gen_toks": "many"}, "generation_kwargs: .*many"),
    ],
)
def test_settings_that_are_refused(kwargs: dict[str, Any], match: str) -> None:
    """What no engine honours is named, never dropped (lm-evaluation-harness#2726)."""
    with pytest.raises(ConfigError, match=match):
        read_sampling(kwargs, "own")
