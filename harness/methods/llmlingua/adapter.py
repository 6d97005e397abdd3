"""The one place that knows the ``llmlingua`` package (0.2.2) and what it takes to run it today.

The package predates transformers 5 and reaches for the net in its constructor. The subclass made
here replaces its loading, so that nothing is downloaded, no remote code runs and no global seed
is set, and wraps its use of the key-value cache. The compression itself is the package's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from harness.engines.hf.model import no_progress_bar
from harness.errors import ModelError

if TYPE_CHECKING:
    from harness.models.tokenizer import Tokenizer

Variant = Literal["llmlingua", "longllmlingua", "llmlingua2"]

_STEP, _SHORT_STEP, _SHORTEST_STEP = 200, 24, 8
"""Tokens that LLMLingua compresses in one step: the package's default; for small rooms; for short
texts."""

_CONTEXT_SURPLUS = 100
"""Tokens over the budget that the passage stage leaves (the package's default, "+100")."""

_VARIANTS: dict[str, dict[str, Any]] = {
    "llmlingua": {"rank_method": "llmlingua"},
    # The settings of the LongLLMLingua paper's released examples.
    "longllmlingua": {
        "rank_method": "longllmlingua",
        "condition_in_question": "after_condition",
        "reorder_context": "sort",
        "dynamic_context_compression_ratio": 0.3,
        "condition_compare": True,
    },
}


class Compressor:
    """An open compressor model.

    Parameters
    ----------
    model
        Folder or cached hub name: a causal LM for ``llmlingua`` and ``longllmlingua``, a token
        classifier for ``llmlingua2``.
    counter
        The target's tokenizer; LLMLingua-2 counts its budget in these tokens.

    Raises
    ------
    ModelError
        The package or the model is not on this machine, or the model is of the wrong kind.
    """

    def __init__(self, variant: Variant, model: str, counter: Tokenizer) -> None:
        self._variant = variant
        try:
            cls = _compressor_class()
        except ImportError as error:
            raise ModelError(
                "LLMLingua needs its package: pip install 'specprefill-harness[llmlingua]'"
            ) from error
        self._last: list[str] = []
        self._percentiles: dict[int, list[str]] = {}
        self._counter = counter
        self._inner = cls(model, variant == "llmlingua2", _TokenCounter(counter))

    def compress(self, passages: Sequence[str], question: str, room: int, asked: float) -> str:
        """Compress ``passages`` for a room of ``room`` tokens; the question is only looked at.

        ``asked`` is the size asked of the token stage, which the caller varies until the result
        fits ``room``; the stage before it, which drops whole passages, always works for ``room``.
        The package answers with a mapping, of which only ``compressed_prompt`` is prompt text.
        """
        passages = list(passages)
        if passages != self._last:
            self._inner.forget()
            self._percentiles.clear()
            self._last = passages
        if self._variant == "llmlingua2":
            return self._classified(asked)
        # The package adds `context_budget` to "target_token" and evaluates that. What is
        # shorter than one step it leaves as it is, whatever is asked: hence shorter steps.
        answer = self._inner.compress_prompt(
            passages,
            question=question,
            target_token=asked,
            context_budget=f"*0+{room + _CONTEXT_SURPLUS}",
            iterative_size=self._step(passages, room),
            concate_question=False,
            **_VARIANTS[self._variant],
        )
        return str(answer["compressed_prompt"])

    def _classified(self, asked: float) -> str:
        """Compress with LLMLingua-2 to a share between two that the package can do.

        It drops whole percentiles of each passage's words, which is 10 % of the result where a
        tenth is kept. Of two neighbouring percentiles some passages take the one and some the
        other, spread evenly, so that the sum comes as close as one passage allows.
        """
        size = sum(len(self._counter.encode(text)) for text in self._last)
        dropped = 100 * (1 - min(1.0, asked / max(1, size)))
        whole, share = divmod(dropped, 1)
        mild = self._without(int(whole))
        strict = self._without(min(100, int(whole) + 1))
        return "\n\n".join(
            strict[index] if int((index + 1) * share) > int(index * share) else mild[index]
            for index in range(len(mild))
        )

    def _without(self, percentile: int) -> list[str]:
        """Texts of the passages without the words up to a percentile of their probabilities."""
        if percentile not in self._percentiles:
            # The package drops the percentile int(100 · (1 − rate) + 1), or nothing at rate 1.
            rate = 1 - max(0.0, percentile - 0.5) / 100
            answer = self._inner.compress_prompt_llmlingua2(self._last, rate=rate)
            self._percentiles[percentile] = list(answer["compressed_prompt_list"])
        return self._percentiles[percentile]

    def _step(self, passages: Sequence[str], room: int) -> int:
        """Tokens a step: half of the room, within the package's 200, so that the room can be met.

        Very short steps only cost time, but a text under one step would stay as it is.
        """
        tokens = sum(int(self._inner.get_token_length(text, False)) for text in passages)
        return max(_SHORTEST_STEP, min(_STEP, max(room // 2, _SHORT_STEP), tokens // 4))


class _TokenCounter:
    """Stands where the package would download an OpenAI vocabulary to count tokens."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def encode(self, text: str) -> tuple[int, ...]:
        """Token ids of ``text``."""
        return self._tokenizer.encode(text)


@cache
def _compressor_class() -> Callable[[str, bool, _TokenCounter], Any]:
    """Return the package's compressor with its loading and its cache handling replaced."""
    from llmlingua import PromptCompressor
    from transformers import DynamicCache

    class OfflineCompressor(PromptCompressor):  # type: ignore[misc]  # untyped package
        def __init__(self, model: str, classifier: bool, counter: _TokenCounter) -> None:
            self.retrieval_model = None
            self.retrieval_model_name = None
            self.cache_bos_num = 10
            self.prefix_bos_num = 100
            self.context_idxs: list[Any] = []
            self.oai_tokenizer = counter
            self.use_llmlingua2 = classifier
            self.model, self.tokenizer, self.device = _load(model, classifier)
            config = self.model.config
            self.max_position_embeddings = config.max_position_embeddings
            # The package tells the two published classifiers apart by their names.
            self.model_name = (
                "xlm-roberta-large"
                if config.model_type == "xlm-roberta"
                else "bert-base-multilingual-cased"
            )
            self.max_batch_size = 50
            self.max_seq_len = min(512, config.max_position_embeddings)
            self.max_force_token = 0
            self.added_tokens: list[str] = []
            self.special_tokens = set(self.tokenizer.all_special_tokens)
            self._known: dict[str, Any] = {}

        def get_ppl(self, text: str, *args: Any, past_key_values: Any = None, **kwargs: Any) -> Any:
            """Give the model a cache object and the package the tuples that it slices.

            A whole passage's perplexity does not depend on the budget, so that a second
            compression of the same passages takes it from the first.
            """
            if text:
                key = repr((text, args, sorted(kwargs.items())))
                if key not in self._known:
                    self._known[key] = super().get_ppl(text, *args, **kwargs)
                return self._known[key]
            past = None
            if past_key_values is not None:
                past = _IndexableCache([tuple(layer) for layer in past_key_values])
            loss, cache = super().get_ppl(text, *args, past_key_values=past, **kwargs)
            return loss, [(layer.keys, layer.values) for layer in cache.layers]

        def forget(self) -> None:
            """Drop the perplexities of the last prompt's passages."""
            self._known.clear()

    class _IndexableCache(DynamicCache):  # type: ignore[misc]  # untyped package
        """A cache that also answers ``cache[layer][0]``, by which the package reads its length."""

        def __getitem__(self, layer: int) -> tuple[Any, Any]:
            return self.layers[layer].keys, self.layers[layer].values

    return OfflineCompressor


def _load(model: str, classifier: bool) -> tuple[Any, Any, str]:
    import torch
    from transformers import (
        AutoModelForCausalLM,
        AutoModelForTokenClassification,
        AutoTokenizer,
    )

    auto = AutoModelForTokenClassification if classifier else AutoModelForCausalLM
    device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        with no_progress_bar():
            tokenizer = AutoTokenizer.from_pretrained(model, local_files_only=True)
            network = auto.from_pretrained(model, local_files_only=True, dtype=torch.float32)
    except (OSError, ValueError) as error:
        kind = "token classifier" if classifier else "causal model"
        raise ModelError(
            f"no {kind} {model!r} on this machine for LLMLingua: give a folder, or fetch it "
            f"first with `hf download {model}`"
        ) from error
    return network.to(device).eval(), tokenizer, device
