"""One request's tokens as they come: drawing, stopping, timing."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.engines.base import Generation, Sampling
from harness.engines.hf.drawing import Drawing
from harness.models.tokenizer import Tokenizer
from harness.schema.prompts import PreparedPrompt
from harness.schema.receipts import Receipt

if TYPE_CHECKING:
    import torch


@dataclass
class Decode:
    """One request's tokens as they come."""

    prompt: PreparedPrompt
    sampling: Sampling
    tokenizer: Tokenizer
    eos: frozenset[int]
    start: float = field(default_factory=time.perf_counter)
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)
    receipt: Receipt | None = None
    reason: str = "length"
    text: str = ""

    def __post_init__(self) -> None:
        self.ends = frozenset(self.sampling.end_tokens)
        self.draw = Drawing(self.sampling, self.prompt.token_ids, self.eos | self.ends)

    def take(self, logits: torch.Tensor) -> bool:
        """Draw a token from logits [vocabulary]; whether to go on."""
        if len(self.tokens) >= self.sampling.max_tokens:
            return False
        token = self.draw(logits, self.tokens)
        self.times.append(time.perf_counter() - self.start)
        self.tokens.append(token)
        if self.sampling.logprobs:
            self.logprobs.append(float(logits.log_softmax(-1)[token]))
        if not self.sampling.ignore_eos and token in self.eos:
            self.reason = "stop"
            return False
        if token in self.ends:
            self.reason, self.text = "stop", self.tokenizer.decode(self.tokens[:-1])
            return False
        if self.sampling.stop and self._stopped():
            self.reason = "stop"
            return False
        return len(self.tokens) < self.sampling.max_tokens

    def _stopped(self) -> bool:
        text = self.tokenizer.decode(self.tokens)
        ends = [at for stop in self.sampling.stop if (at := text.find(stop)) >= 0]
        if ends:
            self.text = text[: min(ends)]
        return bool(ends)

    def finish(self, *, timed: bool) -> Generation:
        """Return the finished generation; the stop string is not in its text."""
        stopped_by_text = self.reason == "stop" and self.tokens[-1] not in self.eos
        return Generation(
            example_id=self.prompt.example_id,
            token_ids=tuple(self.tokens),
            text=self.text if stopped_by_text else self.tokenizer.decode(self.tokens),
            finish_reason=self.reason,
            ttft_s=self.times[0] if timed and self.times else None,
            token_times_s=tuple(self.times) if timed else (),
            logprobs=tuple(self.logprobs) if self.sampling.logprobs else None,
            stages_s={"prefill": self.times[0]} if timed and self.times else {},
            counters=self.counters,
            receipt=self.receipt,
        )
