"""A draft/verifier pair behind the interface of a transformers model."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from harness.engines.base import EngineSpec
from harness.engines.hf.model import eos_ids, forward, load_model, position_range
from harness.errors import ConfigError
from harness.methods.draft_verify.config import PrefillConfig
from harness.methods.draft_verify.pair import Pair, open_pair
from harness.methods.draft_verify.prefill import Tally, one_prompt, speculative_prefill


@dataclass(frozen=True)
class PrefillResult:
    """One prefill.

    Attributes
    ----------
    cache, logits
        The verifier's cache over the prompt, and the first new token's logits [V].
    ttft_ms
        Milliseconds from the call to the first new token's logits.
    acceptance_rate
        Share of chunks that the verifier accepted. It stands on approximate keys and values, so
        it is a proxy: only the true quality says what it costs.
    """

    cache: Any
    logits: Tensor
    ttft_ms: float
    tally: Tally

    @property
    def acceptance_rate(self) -> float:
        """Share of decided chunks that were accepted."""
        rate = self.tally.acceptance_rate
        assert rate is not None, "a prefill decides at least one chunk"
        return rate


class SpecPrefillForCausalLM:
    """Prefill by draft and verifier, decode by the verifier."""

    def __init__(self, pair: Pair, config: PrefillConfig | None = None) -> None:
        self.pair = pair
        self.config = config or PrefillConfig()
        self._verifier = pair.verifier.model
        self._eos = eos_ids(self._verifier)
        self._limit = position_range(self._verifier, EngineSpec("hf", "", max_model_len=2**31))

    @classmethod
    def from_pretrained(
        cls,
        draft_model_name: str,
        verifier_model_name: str,
        *,
        config: PrefillConfig | None = None,
        dtype: str = "float32",
        calibration: str | None = None,
    ) -> Self:
        """Load both models and fit (or read) the maps between them.

        Parameters
        ----------
        draft_model_name, verifier_model_name
            Folders, or hub names in the local cache; nothing is downloaded.
        calibration
            Text file to fit on; None is the built-in text.

        Raises
        ------
        HarnessError
            A model is absent, or the two do not fit.
        """
        verifier = load_model(EngineSpec("hf", verifier_model_name, dtype))
        same = draft_model_name == verifier_model_name
        draft = verifier if same else load_model(EngineSpec("hf", draft_model_name, dtype))
        return cls(open_pair(draft, verifier, text=calibration), config)

    def prefill(self, input_ids: Tensor | Sequence[int]) -> PrefillResult:
        """Prefill one prompt: token ids [M] or [1, M].

        Raises
        ------
        ConfigError
            The prompt is empty, too long, or a batch.
        """
        ids = one_prompt(input_ids)
        self._admit(len(ids), 0)
        start = time.perf_counter()
        cache, logits, tally = speculative_prefill(self.pair, ids, self.config)
        return PrefillResult(cache, logits, (time.perf_counter() - start) * 1000, tally)

    def generate(self, input_ids: Tensor | Sequence[int], max_new_tokens: int = 256) -> Tensor:
        """Decode greedily after :meth:`prefill`: int64 [1, M + new], as transformers gives."""
        ids = list(one_prompt(input_ids))
        self._admit(len(ids), max_new_tokens)
        state = self.prefill(ids)
        logits, new = state.logits, []
        with torch.inference_mode():
            for _ in range(max_new_tokens):
                new.append(int(logits.argmax()))
                if new[-1] in self._eos or len(new) == max_new_tokens:
                    break
                position = len(ids) + len(new) - 1
                logits = forward(self._verifier, new[-1:], (position,), state.cache)[-1]
        return torch.tensor([ids + new])

    def _admit(self, length: int, new: int) -> None:
        if length == 0:
            raise ConfigError("the prompt has no tokens")
        if length + new > self._limit:
            raise ConfigError(
                f"{length} prompt tokens and {new} new ones exceed the verifier's "
                f"{self._limit} positions"
            )
