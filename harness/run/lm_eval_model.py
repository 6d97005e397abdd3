"""The lm-eval bridge: a method on an engine as one of lm-eval's models.

``harness lm-eval --tasks …`` runs lm-eval's own command line with the model ``specprefill``
registered; any generate_until, loglikelihood or loglikelihood_rolling task works under it.
"""

from __future__ import annotations

import atexit
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

from harness.engines.admission import AFTER_PAIR
from harness.engines.base import Engine, EngineSpec
from harness.errors import ConfigError, HarnessError
from harness.methods.base import Method, MethodContext
from harness.schema.prompts import PreparedPair, PreparedPrompt, Prompt
from harness.schema.receipts import Status
from harness.tasks.catalogue import list_tasks
from harness.tasks.framing import Frame
from harness.tasks.info import from_file
from harness.tasks.pairs import split_pair
from harness.tasks.sampling import ending_at, read_sampling

AT_ONCE = 256
"""Prompts that a method prepares together."""


class MethodLM(LM):  # type: ignore[misc]  # lm-eval ships no types
    """An lm-eval model over a method, an engine and the method's handles.

    Attributes
    ----------
    statuses
        How many prompts had which receipt status; anything but ``active`` deserves a look.
    """

    def __init__(self, method: Method, engine: Engine, context: MethodContext) -> None:
        super().__init__()
        self.method, self.engine, self.context = method, engine, context
        self.frame = Frame(context.tokenizer, chat=False)
        self.statuses: Counter[str] = Counter()
        self._made = 0

    @property
    def tokenizer_name(self) -> str:
        """Digest of the vocabulary: lm-eval names its request cache by it."""
        return self.context.tokenizer.digest

    def chat_template(self, chat_template: bool | str = False) -> str:
        """Return the model's chat template where one is asked for."""
        return str(self.context.tokenizer.hf.chat_template or "") if chat_template else ""

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        """Render a conversation; a last assistant turn is begun, not closed, where asked."""
        if add_generation_prompt:
            return self.frame.chatted(chat_history)
        *turns, last = chat_history
        return self.frame.chatted(turns, last["content"])

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
        """Generate for each request, in batches of equal settings."""
        texts: dict[int, str] = {}
        ends = {task.name: task.end_token for task in list_tasks()}
        asked = [
            ending_at(
                read_sampling(request.args[1], str(request.task_name)),
                ends.get(request.task_name, ""),
                self.context.tokenizer,
            )
            for request in requests
        ]
        for settings in dict.fromkeys(asked):
            indices = [index for index, one in enumerate(asked) if one == settings]
            prompts = [self._prompt(self.frame.start(requests[i].args[0])) for i in indices]
            by_id = {p.example_id: i for p, i in zip(prompts, indices, strict=True)}
            prepared = self._prepared(prompts, settings.max_tokens)
            for generation in self.engine.generate(prepared, settings):
                texts[by_id[generation.example_id]] = generation.text
        return [texts[index] for index in range(len(requests))]

    def loglikelihood(
        self, requests: Sequence[Any], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        """Score continuations; one selection per distinct context serves all of them."""
        split = [split_pair(self.frame, *request.args) for request in requests]
        return self._score([(ids, continuation) for _, ids, continuation in split])

    def loglikelihood_rolling(
        self, requests: Sequence[Any], disable_tqdm: bool = False
    ) -> list[float]:
        """Score whole texts in windows of the model's range; only a conditioning part is pruned."""
        return [
            sum(logprob for logprob, _ in self._score(list(self._windows(request.args[0]))))
            for request in requests
        ]

    def _windows(self, text: str) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Split a text as lm-eval does: every token is predicted once."""
        from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

        tokenizer = self.context.tokenizer
        start = tokenizer.bos_token_id
        start = tokenizer.hf.eos_token_id if start is None else start
        windows = get_rolling_token_windows(
            token_list=list(tokenizer.encode(text)),
            prefix_token=start,
            max_seq_len=self.context.max_positions - 1 - AFTER_PAIR,
            context_len=1,
        )
        for context, continuation in map(make_disjoint_window, windows):
            yield tuple(context), tuple(continuation)

    def _score(
        self, pairs: Sequence[tuple[tuple[int, ...], tuple[int, ...]]]
    ) -> list[tuple[float, bool]]:
        decode = self.context.tokenizer.decode
        contexts = {
            ids: replace(self._prompt(decode(ids, skip_special_tokens=False)), token_ids=ids)
            for ids, _ in pairs
        }
        for ids, continuation in pairs:
            self._check(len(ids), len(continuation) + AFTER_PAIR)
        prepared = dict(zip(contexts, self._prepared(list(contexts.values()), 0), strict=True))
        scored = self.engine.loglikelihood(PreparedPair(prepared[ids], c) for ids, c in pairs)
        return [(one.logprob, one.is_greedy) for one in scored]

    def _prompt(self, text: str) -> Prompt:
        self._made += 1
        return Prompt(f"lm-eval/{self._made}", text, self.context.tokenizer.encode(text))

    def _prepared(self, prompts: Sequence[Prompt], max_tokens: int) -> Iterator[PreparedPrompt]:
        """Prepare lazily; a prompt that the method cannot take ends the evaluation.

        lm-eval has no place for a missing answer, and a made-up one would be a wrong score.
        """
        for prompt in prompts:
            self._check(len(prompt.token_ids), max_tokens)
        context = replace(self.context, max_tokens=max_tokens)
        for start in range(0, len(prompts), AT_ONCE):
            for one in self.method.prepare(prompts[start : start + AT_ONCE], context):
                self.statuses[str(one.receipt.status)] += 1
                if one.receipt.status is Status.UNSUPPORTED:
                    raise HarnessError(f"{self.method.name}: {one.receipt.reason}")
                yield one
            # No prompt comes twice, and tasks can be large.
            context.memo.clear()

    def _check(self, tokens: int, new: int) -> None:
        """Refuse what the model's range cannot hold; cutting it would score another prompt."""
        if tokens + new > self.context.max_positions:
            raise ConfigError(
                f"a prompt of {tokens} tokens and {new} new ones go beyond the model's "
                f"{self.context.max_positions} positions"
            )


@dataclass(frozen=True)
class Options:
    """``--model_args`` of ``--model specprefill``.

    ``method`` is an arm or method as ``harness run --method`` takes it; ``pretrained`` is
    another word for ``target``. Further options go to the method (``chunk=64``).
    """

    preset: str | None = None
    target: str | None = None
    pretrained: str | None = None
    speculator: str | None = None
    method: str = "specprefill"
    keep: float = 0.1
    look_ahead: int = 8
    engine: str = "vllm"
    dtype: str = "bfloat16"


@register_model("specprefill")
class SpecPrefillLM(MethodLM):
    """``lm_eval --model specprefill --model_args preset=smollm2,keep=0.1``."""

    def __init__(
        self,
        batch_size: Any = None,
        max_batch_size: Any = None,
        device: Any = None,
        **model_args: Any,
    ) -> None:
        known = {k: v for k, v in model_args.items() if k in Options.__dataclass_fields__}
        extra = {k: v for k, v in model_args.items() if k not in known}
        self._stack = ExitStack()
        super().__init__(*open_method(Options(**known), extra, self._stack))
        atexit.register(self.close)  # lm-eval never closes a model; engines own processes

    def close(self) -> None:
        """End engine and speculator, and say what became of the prompts. Idempotent."""
        self._stack.close()
        if self.statuses:
            counts = ", ".join(f"{status} {n}" for status, n in self.statuses.items())
            print(f"{self.method.name}: receipts: {counts}", file=sys.stderr)
            self.statuses.clear()


def open_method(
    options: Options, extra: dict[str, Any], stack: ExitStack
) -> tuple[Method, Engine, MethodContext]:
    """Start what the options name; the stack closes it.

    Raises
    ------
    HarnessError
        An unknown option, method or model, in one line.
    """
    from harness.engines.registry import check_target
    from harness.models.presets import resolve
    from harness.models.tokenizer import Tokenizer
    from harness.run.arms import expand_arms
    from harness.run.config import parse_config
    from harness.run.opener import open_models

    config = parse_config(
        {
            "arms": {options.method: extra},
            "keep": [options.keep],
            "look_ahead": [options.look_ahead],
            "engine": options.engine,
            "dtype": options.dtype,
            "reference": False,
        },
        "--model_args",
    )
    (planned,) = expand_arms(config)
    target = options.target or options.pretrained
    models = resolve(options.preset, target, options.speculator or target)
    base = EngineSpec(options.engine, str(models.target), options.dtype, models.max_positions)
    check_target(base)
    opened = open_models(
        planned.method.engine_spec(base),
        models,
        Tokenizer.load(str(models.target)),
        stack,
        speculator="scorer" in planned.method.needs,
    )
    assert opened.engine is not None, "the target was asked for"
    return planned.method, opened.engine, opened.context(method_seed=planned.arm.method_seed)


def run_lm_eval(arguments: Iterable[str]) -> None:
    """Run lm-eval's command line with our model and tasks known to it.

    Ours win over lm-eval's tasks of the same name. The model is ``specprefill`` unless
    ``--model`` says otherwise.
    """
    from lm_eval.__main__ import cli_evaluate

    from harness.paths import package_or_checkout

    words = [word for word in arguments if word != "run"]
    for name in (part for word in words for part in word.split(",")):
        if name.endswith((".yaml", ".yml")) and Path(name).is_file():
            from_file(Path(name))  # lm-eval would drop the first of two equal keys
    if "--model" not in words:
        words += ["--model", "specprefill"]
    if "--include_path" not in words:
        words += ["--include_path", str(package_or_checkout("tasks"))]
    before = sys.argv
    sys.argv = ["lm-eval", "run", *words]
    try:
        cli_evaluate()
    finally:
        sys.argv = before
