"""The embedded model in plain transformers: explicit position_ids, all-ones attention mask."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

from harness.engines.scorer import ScoringConfig
from harness.methods.specprefill.importance import pool


class Reference:
    """What the engine must agree with."""

    def __init__(self, path: Path) -> None:
        self.model = AutoModelForCausalLM.from_pretrained(
            path, dtype=torch.float32, attn_implementation="eager"
        ).eval()
        self.eos = self.model.generation_config.eos_token_id

    @torch.inference_mode()
    def generate(
        self,
        tokens: tuple[int, ...],
        positions: tuple[int, ...],
        resume: int,
        count: int,
        repetition: tuple[float, tuple[int, ...]] = (1.0, ()),
    ) -> tuple[list[int], list[float]]:
        """Greedy tokens and their log probabilities; decoding goes on at ``resume``.

        ``repetition`` is a penalty and the prompt tokens that it counts beside the generated.
        """
        penalty, prompt = repetition
        step, places, cache = torch.tensor([tokens]), torch.tensor([positions]), None
        out_tokens: list[int] = []
        out_logprobs: list[float] = []
        for number in range(count):
            length = len(tokens) + number
            out = self.model(
                input_ids=step,
                position_ids=places,
                attention_mask=torch.ones(1, length, dtype=torch.long),
                past_key_values=cache,
                use_cache=True,
            )
            logits = out.logits[0, -1].float()
            logprobs = torch.log_softmax(logits, dim=-1)
            seen = torch.tensor(sorted({*prompt, *out_tokens}), dtype=torch.long)
            known = logits[seen]
            logits[seen] = torch.where(known > 0, known / penalty, known * penalty)
            best = int(logits.argmax())
            out_tokens.append(best)
            out_logprobs.append(float(logprobs[best]))
            cache = out.past_key_values
            step, places = torch.tensor([[best]]), torch.tensor([[resume + number]])
        return out_tokens, out_logprobs

    @torch.inference_mode()
    def continuation_logprobs(
        self,
        tokens: tuple[int, ...],
        positions: tuple[int, ...],
        resume: int,
        continuation: tuple[int, ...],
    ) -> list[float]:
        """Log probability of each continuation token, standing at ``resume`` and after."""
        ids = torch.tensor([[*tokens, *continuation]])
        places = torch.tensor([[*positions, *range(resume, resume + len(continuation))]])
        out = self.model(input_ids=ids, position_ids=places, attention_mask=torch.ones_like(ids))
        logprobs = torch.log_softmax(out.logits[0].float(), dim=-1)
        first = len(tokens) - 1
        return [float(logprobs[first + i, token]) for i, token in enumerate(continuation)]

    @torch.inference_mode()
    def rows(
        self, tokens: tuple[int, ...], config: ScoringConfig
    ) -> tuple[torch.Tensor, tuple[int, ...]]:
        """``Scores.rows`` and look-ahead tokens from eager attention weights."""
        length = len(tokens)
        cache = self.model(torch.tensor([tokens[:-1]]), use_cache=True).past_key_values
        token, rows, ahead = tokens[-1], [], []
        while True:
            out = self.model(
                torch.tensor([[token]]),
                past_key_values=cache,
                use_cache=True,
                output_attentions=True,
            )
            # layers × [1, heads, 1, keys] → [layers, heads, M]
            weights = torch.stack([a[0, :, 0, :length] for a in out.attentions])
            if config.normalize == "prompt":
                weights = weights / weights.sum(dim=-1, keepdim=True)
            rows.append(pool(weights, config).amax(dim=(0, 1)))
            token = int(out.logits[0, -1].argmax())
            stop = token == self.eos and not config.ignore_eos
            if len(rows) == config.look_ahead or stop:
                return torch.stack(rows), tuple(ahead)
            ahead.append(token)
