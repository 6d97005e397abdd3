"""An engine without a model: it reads out the numbers that its prompt still holds.

Tests of everything above the engine seam use it. It is deterministic, keeps the seam's promises
(one generation a prompt, pulled lazily; times that add up), and its answers depend on which
tokens were kept, so that selectors can be told apart: the answer is every number of five or more
digits in the kept text, in order. Requests are checked against the target's range as a real engine
does. It has one answer, so how tokens are drawn (temperature, top_k, a repetition penalty …)
changes nothing. Times follow a cost model and nobody waits for them.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from types import TracebackType
from typing import Self

import numpy as np

from harness.engines.admission import admit, admit_pair
from harness.engines.base import EngineSpec, Generation, LogLikelihood, Sampling
from harness.engines.scorer import ScoreRequest, Scores
from harness.errors import ConfigError
from harness.models.tokenizer import Tokenizer
from harness.schema.prompts import PreparedPair, PreparedPrompt

SECONDS_PER_TOKEN = 1e-3
SECONDS_PER_STEP = 1e-2
SPECULATOR_SHARE = 0.2
"""The fake speculator's time per token as a share of the fake target's."""

_NUMBER = re.compile(r"\d{5,}")


@cache
def _tokenizer(path: str) -> Tokenizer:
    """Load a tokenizer once a process: there is nothing else to a fake model."""
    return Tokenizer.load(path)


class FakeEngine:
    """See the module's description. ``options`` takes ``delay_s``, a real sleep per request."""

    def __init__(self, spec: EngineSpec) -> None:
        self.spec = spec
        self.tokenizer = _tokenizer(spec.target)
        self.delay_s = float(dict(spec.options).get("delay_s", 0.0))

    @classmethod
    def check(cls, spec: EngineSpec) -> None:
        """Refuse what only an engine with a model can do.

        Raises
        ------
        ConfigError
            Another attention path or prefill strategy, or an option that it does not have.
        """
        for kind, name, plain in (
            ("attention path", spec.attention, "dense"),
            ("prefill strategy", spec.prefill, "standard"),
        ):
            if name != plain:
                raise ConfigError(f"the fake engine has no {kind} {name!r}: use --engine hf")
        for name, _ in spec.options:
            if name != "delay_s":
                raise ConfigError(f"the fake engine has no option {name!r}; it has delay_s")

    @classmethod
    def open(cls, spec: EngineSpec) -> FakeEngine:
        """Load the tokenizer of ``spec.target``; there is nothing else to start."""
        cls.check(spec)
        return cls(spec)

    @property
    def identity(self) -> Mapping[str, str]:
        """Name and dtype; there is no model."""
        return {"engine": "fake", "version": "1", "dtype": self.spec.dtype, "device": "none"}

    def generate(
        self, prompts: Iterable[PreparedPrompt], sampling: Sampling
    ) -> Iterator[Generation]:
        """Read out the numbers of each prompt."""
        for prompt in prompts:
            yield self._generate(prompt, sampling, timed=False)

    def time_one(self, prompt: PreparedPrompt, sampling: Sampling) -> Generation:
        """Read out the numbers, with times of the cost model."""
        return self._generate(prompt, sampling, timed=True)

    def loglikelihood(self, pairs: Iterable[PreparedPair]) -> Iterator[LogLikelihood]:
        """Score a continuation by the share of its tokens that the kept context holds."""
        for pair in pairs:
            admit_pair(pair, self.spec.max_model_len)
            seen = set(pair.context.token_ids)
            token_logprobs = tuple(-0.1 if t in seen else -5.0 for t in pair.continuation)
            yield LogLikelihood(
                pair.context.example_id,
                sum(token_logprobs),
                all(t in seen for t in pair.continuation),
                token_logprobs,
                counters=_applied(pair.context),
            )

    def close(self) -> None:
        """Do nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _generate(self, prompt: PreparedPrompt, sampling: Sampling, *, timed: bool) -> Generation:
        admit(prompt, sampling.max_tokens, self.spec.max_model_len)
        if self.delay_s:
            time.sleep(self.delay_s)
        numbers = _NUMBER.findall(self.tokenizer.decode(prompt.token_ids))
        text = " " + ", ".join(dict.fromkeys(numbers))
        stops = [text.index(s) for s in sampling.stop if s in text]
        text = text[: min(stops)] if stops else text
        ids = self.tokenizer.encode(text)[: sampling.max_tokens] or (0,)
        ttft = SECONDS_PER_TOKEN * len(prompt.token_ids)
        times = tuple(ttft + SECONDS_PER_STEP * i for i in range(len(ids)))
        return Generation(
            example_id=prompt.example_id,
            token_ids=ids,
            text=self.tokenizer.decode(ids),
            finish_reason="length" if len(ids) == sampling.max_tokens else "stop",
            ttft_s=ttft if timed else None,
            token_times_s=times if timed else (),
            logprobs=tuple(0.0 for _ in ids) if sampling.logprobs else None,
            counters=_applied(prompt),
        )


def _applied(prompt: PreparedPrompt) -> dict[str, int]:
    """Positions are part of the answer here: a sparse prompt has had its own by definition."""
    return {"positions_applied": int(prompt.positions is not None)}


class FakeScorer:
    """A speculator without a model: digits matter, the rest is noise seeded by the token id."""

    def __init__(self, spec: EngineSpec) -> None:
        self.spec = spec
        self.tokenizer = _tokenizer(spec.target)
        vocabulary = self.tokenizer.hf.get_vocab()
        noise = np.random.default_rng(0).random(max(vocabulary.values()) + 1, dtype=np.float32)
        digits = [i for token, i in vocabulary.items() if any(c.isdigit() for c in token)]
        noise[digits] += 1.0
        self._score_of_id = noise
        self.calls = 0

    @classmethod
    def check(cls, spec: EngineSpec) -> None:
        """Any tokenizer will do."""

    @classmethod
    def open(cls, spec: EngineSpec) -> FakeScorer:
        """Load the tokenizer of ``spec.target``."""
        return cls(spec)

    @property
    def identity(self) -> Mapping[str, str]:
        """Name and dtype; there is no model."""
        return {"engine": "fake", "version": "1", "dtype": self.spec.dtype, "device": "none"}

    @property
    def max_positions(self) -> int:
        """No bound but the spec's."""
        return self.spec.max_model_len

    def score(self, requests: Iterable[ScoreRequest]) -> Iterator[Scores]:
        """Look up each token's score; every query row is a little different."""
        for request in requests:
            self.calls += 1
            base = self._score_of_id[np.asarray(request.token_ids, dtype=np.int64)]
            seed = hashlib.sha256(request.example_id.encode()).digest()[:4]
            wobble = np.random.default_rng(int.from_bytes(seed)).random(
                (request.config.look_ahead, len(base)), dtype=np.float32
            )
            yield Scores(
                example_id=request.example_id,
                rows=base[None, :] + np.float32(0.01) * wobble,
                look_ahead_tokens=request.token_ids[: request.config.look_ahead - 1],
                seconds=SPECULATOR_SHARE * SECONDS_PER_TOKEN * len(base),
                counters={"rows_captured": request.config.look_ahead},
            )

    def close(self) -> None:
        """Do nothing."""
