"""Which token comes next: transformers' own logits processors, asked for by a Sampling."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from harness.engines.base import Sampling

if TYPE_CHECKING:
    import torch


class Drawing:
    """Draws a request's tokens.

    Parameters
    ----------
    prompt
        The prefilled token ids, which a repetition penalty counts as said.
    ends
        Token ids that end a text, which ``min_tokens`` keeps from being drawn.
    """

    def __init__(self, sampling: Sampling, prompt: Sequence[int], ends: Collection[int]) -> None:
        self.sampling, self.prompt = sampling, tuple(prompt)
        self.ends = sorted(ends)
        self.processors = _processors(sampling)

    def __call__(self, logits: torch.Tensor, tokens: Sequence[int]) -> int:
        """Draw from logits [vocabulary] after the text's ``tokens``."""
        import torch

        scores = logits[None, :]
        if self.processors:
            said = torch.tensor([[*self.prompt, *tokens]], device=logits.device)
            for processor in self.processors:
                scores = processor(said, scores)
        if len(tokens) < self.sampling.min_tokens:
            scores = scores.clone()
            scores[:, self.ends] = -torch.inf
        if self.sampling.temperature == 0:
            return int(scores.argmax())
        generator = None
        if self.sampling.seed is not None:
            # Seeded anew by (seed, step): a request's tokens depend on no other request.
            generator = torch.Generator(logits.device)
            generator.manual_seed(self.sampling.seed * 1_000_003 + len(tokens))
        return int(torch.multinomial(scores[0].softmax(-1), 1, generator=generator))


def _processors(sampling: Sampling) -> list[Any]:
    """The processors that a sampling needs, in transformers' order."""
    if sampling.repetition_penalty == 1 and sampling.temperature == 0:
        return []
    from transformers.generation import logits_process as library

    found: list[Any] = []
    if sampling.repetition_penalty != 1:
        found.append(library.RepetitionPenaltyLogitsProcessor(sampling.repetition_penalty))
    if sampling.temperature > 0:
        found.append(library.TemperatureLogitsWarper(float(sampling.temperature)))
        if sampling.top_k is not None:
            found.append(library.TopKLogitsWarper(int(sampling.top_k)))
        if sampling.top_p is not None and sampling.top_p < 1:
            found.append(library.TopPLogitsWarper(float(sampling.top_p)))
        if sampling.min_p:
            found.append(library.MinPLogitsWarper(float(sampling.min_p)))
    return found
