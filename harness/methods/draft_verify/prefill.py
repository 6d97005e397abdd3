"""The draft/verify loop, and full prefill beside it (ALGORITHM.md, Draft/verify prefill)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from harness.engines.hf.model import new_cache
from harness.errors import ConfigError
from harness.methods.costs import causal_pairs
from harness.methods.draft_verify.cache import slot_cache, trim
from harness.methods.draft_verify.config import MIN_DECIDED, PrefillConfig
from harness.methods.draft_verify.pair import Pair, Slots
from harness.methods.draft_verify.view import View


@dataclass
class Tally:
    """What the loop did.

    Attributes
    ----------
    decided, rejected
        Chunks; a chunk is rejected where any of its checkpoints is.
    cosines
        Of each checkpoint that was evaluated, in order.
    shuffled
        Cosines of pairs that do not belong together: each checkpoint's own state with the
        draft's at the checkpoint before. What a threshold must tell from ``cosines``.
    drafted
        Slots of the final cache that are the draft's.
    draft_s
        Seconds of the draft's passes and of the maps.
    verifier_tokens, verifier_pairs
        Tokens that the verifier ran, and (query, key) pairs that it computed for them.
    """

    decided: int = 0
    rejected: int = 0
    cosines: list[float] = field(default_factory=list)
    shuffled: list[float] = field(default_factory=list)
    fell_back: bool = False
    drafted: int = 0
    draft_s: float = 0.0
    verifier_tokens: int = 0
    verifier_pairs: int = 0

    @property
    def acceptance_rate(self) -> float | None:
        """Share of decided chunks that were accepted; None for an empty prompt."""
        return 1 - self.rejected / self.decided if self.decided else None

    def alike(self, threshold: float) -> tuple[float | None, float | None]:
        """Thresholds under which the same prompt runs the same way as under ``threshold``.

        Returns
        -------
        tuple
            The greatest refused cosine and the least accepted one: thresholds above the first
            and up to the second decide every checkpoint alike. None where there is no bound.
        """
        refused = max((c for c in self.cosines if c < threshold), default=None)
        accepted = min((c for c in self.cosines if c >= threshold), default=None)
        return refused, accepted

    def ran(self, start: int, stop: int) -> None:
        """Count a verifier pass over the tokens ``start`` … ``stop`` − 1."""
        self.verifier_tokens += stop - start
        self.verifier_pairs += causal_pairs(stop) - causal_pairs(start)


def one_prompt(input_ids: Tensor | Sequence[int]) -> list[int]:
    """Token ids of one prompt, given as [M] or [1, M].

    Raises
    ------
    ConfigError
        They are of several prompts.
    """
    rows = torch.as_tensor(input_ids)
    if rows.ndim == 2 and len(rows) == 1:
        rows = rows[0]
    if rows.ndim != 1:
        raise ConfigError(
            f"draft/verify prefills one prompt at a time, not shape {list(rows.shape)}"
        )
    return [int(i) for i in rows]


def standard_prefill(verifier: Any, input_ids: Tensor | Sequence[int]) -> tuple[Any, Tensor]:
    """Prefill fully with a transformers model: its cache and the last token's logits [V].

    Raises
    ------
    ConfigError
        The prompt is a batch of several.
    """
    view = View(verifier)
    with torch.inference_mode():
        return _full(view, one_prompt(input_ids), Tally())


def speculative_prefill(
    pair: Pair, input_ids: Sequence[int], config: PrefillConfig
) -> tuple[Any, Tensor, Tally]:
    """Prefill with the draft's slots where the verifier accepts them.

    Returns
    -------
    tuple
        The verifier's cache over all M tokens, the float32 logits [V] of its own pass over token
        M − 1, and the tally.
    """
    with torch.inference_mode():
        return _Run(pair, input_ids, config).prefill()


class _Run:
    """One prompt's loop."""

    def __init__(self, pair: Pair, ids: Sequence[int], config: PrefillConfig) -> None:
        self.pair, self.ids, self.config = pair, ids, config
        self.tally = Tally()
        self.draft_cache = slot_cache(pair.draft.layers, len(ids))
        self.cache = slot_cache(pair.verifier.layers, len(ids))
        self.hidden: Tensor | None = None
        self.before: Tensor | None = None

    def prefill(self) -> tuple[Any, Tensor, Tally]:
        """Draft, check and repair chunk by chunk."""
        for start in range(0, len(self.ids), self.config.draft_chunk_size):
            stop = min(start + self.config.draft_chunk_size, len(self.ids))
            self._chunk(start, stop)
            if self._gives_up():
                self.tally.fell_back = True
                self.tally.drafted = 0
                return *_full(self.pair.verifier, self.ids, self.tally), self.tally
        assert self.hidden is not None, "a prompt has at least one token"
        return self.cache, self.pair.verifier.logits(self.hidden), self.tally

    def _chunk(self, start: int, stop: int) -> None:
        """Fill the chunk's slots; what follows the last passed checkpoint is recomputed."""
        began = perf_counter()
        draft_hidden = self.pair.draft.run(self.ids[start:stop], start, self.draft_cache)
        slots = self.pair.slots(self.draft_cache, start, stop)
        self.tally.draft_s += perf_counter() - began
        passed = start
        for point in self.config.checkpoints(start, stop):
            self._fill(slots, start, passed, point)
            own = self._verify(point, point + 1)
            cosine = self.pair.cosine(own, draft_hidden[point - start])
            self.tally.cosines.append(cosine)
            if self.before is not None:
                self.tally.shuffled.append(self.pair.apart(own, self.before))
            self.before = draft_hidden[point - start]
            if not cosine >= self.config.acceptance_threshold:  # nor is NaN accepted
                trim(self.cache, passed)
                self._verify(passed, stop)
                break
            self.tally.drafted += point - passed
            passed = point + 1
        self.tally.decided += 1
        self.tally.rejected += passed < stop

    def _fill(self, slots: Slots, start: int, first: int, point: int) -> None:
        """Put the draft's slots ``first`` … ``point`` − 1 into the verifier's cache."""
        if first == point:
            return
        for layer, (keys, values) in enumerate(slots):
            part = slice(first - start, point - start)
            self.cache.layers[layer].update(keys[None, :, part], values[None, :, part])

    def _verify(self, start: int, stop: int) -> Tensor:
        """Run the verifier on tokens ``start`` … ``stop`` − 1: hidden state [D] of the last."""
        self.hidden = self.pair.verifier.run(self.ids[start:stop], start, self.cache)[-1]
        self.tally.ran(start, stop)
        return self.hidden

    def _gives_up(self) -> bool:
        tally, config = self.tally, self.config
        enough = tally.decided >= MIN_DECIDED
        too_many = tally.rejected / tally.decided > config.max_rejection_rate
        return config.fallback_to_full and enough and too_many


def _full(view: View, ids: Sequence[int], tally: Tally) -> tuple[Any, Tensor]:
    cache = new_cache(view.model)
    hidden = view.run(ids, 0, cache)[-1]
    tally.ran(0, len(ids))
    return cache, view.logits(hidden)
