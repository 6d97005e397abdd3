"""SpecPrefill for a plain ``vllm.LLM``, called as the paper's repository offers it.

    from harness import enable_prefill_spec
    enable_prefill_spec(spec_model="…", spec_config_path="config_p1_full_lah8.yaml")

    from vllm import LLM
    llm = LLM("…")

Every ``LLM`` built from then on has a speculator beside it, and every request of ``generate``,
``chat`` and ``enqueue`` goes through it; its output carries ``output.specprefill``, the receipt.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.engines.base import EngineSpec
from harness.engines.vllm import flavour
from harness.engines.vllm.cpu import prepare_environment
from harness.engines.vllm.refusals import check_options, check_target
from harness.engines.vllm.wire import (
    POSITIONS_KEY,
    encode_positions,
    own_keys,
    positions_salt,
)
from harness.errors import ConfigError
from harness.methods.base import MethodContext
from harness.methods.specprefill.config import SpecPrefillConfig
from harness.methods.specprefill.method import SpecPrefill
from harness.methods.specprefill.paper_config import read_paper_config
from harness.methods.specprefill.vllm.scorer import VllmScorer
from harness.models.config_facts import kv_bytes_per_token, position_range, read_config
from harness.models.tokenizer import Tokenizer
from harness.schema.prompts import PreparedPrompt, Prompt
from harness.schema.receipts import BudgetKind, Receipt, Status

_PATCHED = ("__init__", "_render_and_add_requests", "_run_engine")
_STATE = "_specprefill"


@dataclass(frozen=True)
class _Enabled:
    """What is enabled in this process, and vLLM's own methods, to be put back."""

    spec_model: str
    config: SpecPrefillConfig
    original: dict[str, Callable[..., Any]]


_enabled: _Enabled | None = None


def enable_prefill_spec(spec_model: str, spec_config_path: str | Path | None = None) -> None:
    """Give every ``vllm.LLM`` built from now on a speculator; call it before building one.

    Parameters
    ----------
    spec_model
        Folder or hub name of the speculator; it must share the target's tokenizer.
    spec_config_path
        A YAML file with the paper's keys (:mod:`harness.methods.specprefill.paper_config`); None
        for the paper's main configuration.

    Raises
    ------
    HarnessError
        The file or the model cannot be read.
    """
    global _enabled  # noqa: PLW0603  (one patch a process, undone by disable_prefill_spec)
    config = read_paper_config(spec_config_path)
    read_config(spec_model)
    flavour.require()
    prepare_environment()
    disable_prefill_spec()
    from vllm.entrypoints.llm import LLM

    _enabled = _Enabled(spec_model, config, {name: getattr(LLM, name) for name in _PATCHED})
    LLM.__init__ = _init
    LLM._render_and_add_requests = _render_and_add_requests
    LLM._run_engine = _run_engine


def disable_prefill_spec() -> None:
    """Put vLLM's own methods back. ``LLM`` objects that have a speculator keep it, unused."""
    global _enabled  # noqa: PLW0603
    if _enabled is None:
        return
    from vllm.entrypoints.llm import LLM

    for name, method in _enabled.original.items():
        setattr(LLM, name, method)
    _enabled = None


class _Pair:
    """The speculator of one ``LLM``, and the receipts of its requests on their way."""

    def __init__(self, llm: Any, scorer: VllmScorer, config: SpecPrefillConfig) -> None:
        self.scorer = scorer
        self.method = SpecPrefill(config)
        self.limit = int(llm.model_config.max_model_len)
        self.context = MethodContext(
            tokenizer=Tokenizer(llm.get_tokenizer()), scorer=scorer, max_positions=self.limit
        )
        self.sent: dict[str, _Sent] = {}


@dataclass(frozen=True)
class _Sent:
    """A request on its way: its original tokens, receipt, and ids in the workers."""

    token_ids: tuple[int, ...]
    receipt: Receipt
    internal: tuple[str, ...]


def _init(self: Any, model: str, *args: Any, **kwargs: Any) -> None:
    """``LLM.__init__``: check, start the target with our worker, then the speculator."""
    assert _enabled is not None
    found = flavour.require()
    config = read_config(model)
    check_options(kwargs)
    check_target(model, config)
    _check_tokenizers(kwargs.get("tokenizer") or model, _enabled.spec_model)
    if kwargs.get("worker_cls", "auto") != "auto":
        raise ConfigError("SpecPrefill needs its own worker_cls: leave yours out")
    kwargs["worker_cls"] = found.worker_class("target")
    if found.device == "cpu":
        kwargs.setdefault("kv_cache_memory_bytes", _cpu_cache_bytes(config, kwargs))
    _enabled.original["__init__"](self, model, *args, **kwargs)
    try:
        scorer = VllmScorer.open(_scorer_spec(_enabled.spec_model, self.model_config))
    except BaseException:
        self.llm_engine.engine_core.shutdown()
        raise
    setattr(self, _STATE, _Pair(self, scorer, _enabled.config))
    weakref.finalize(self, scorer.close)


def _check_tokenizers(target: str, speculator: str) -> None:
    if target == speculator:
        return
    if Tokenizer.load(target).digest != Tokenizer.load(speculator).digest:
        raise ConfigError(
            f"the speculator {speculator} and the target {target} have different tokenizers: "
            "choose a speculator of the target's family"
        )


def _cpu_cache_bytes(config: dict[str, Any], kwargs: dict[str, Any]) -> int:
    """Two prompts of full length: vLLM's own sizing goes wrong on CPU (docs/adr/0012)."""
    length = kwargs.get("max_model_len") or position_range(config) or 8192
    dtype = str(kwargs.get("dtype", "auto"))
    per_token = kv_bytes_per_token(config, "float32" if "32" in dtype else "bfloat16")
    return 2 * (int(length) + 256) * per_token


def _scorer_spec(spec_model: str, target: Any) -> EngineSpec:
    """A speculator of the target's dtype, over its own range or the target's."""
    limit = position_range(read_config(spec_model)) or int(target.max_model_len)
    return EngineSpec(
        engine="vllm",
        target=spec_model,
        dtype=str(target.dtype).removeprefix("torch."),
        max_model_len=min(limit, int(target.max_model_len)),
    )


def _render_and_add_requests(
    self: Any,
    prompts: Iterable[Any],
    params: Sequence[Any],
    **kwargs: Any,
) -> list[str]:
    """``LLM._render_and_add_requests``: put pruned prompts in the place of whole ones."""
    assert _enabled is not None
    original = _enabled.original["_render_and_add_requests"]
    pair: _Pair | None = getattr(self, _STATE, None)
    if pair is None:  # built before enable_prefill_spec
        added: list[str] = original(self, prompts, params, **kwargs)
        return added
    for item in params:
        _refuse_own_keys(getattr(item, "extra_args", None))
    prepared: list[PreparedPrompt] = []
    whole: list[tuple[int, ...]] = []
    own: list[Any] = []
    first = self.request_counter.counter

    def pruned() -> Iterator[Any]:
        inputs = list(prompts)
        whole.extend(tuple(item.get("prompt_token_ids") or ()) for item in inputs)
        for number, ready in enumerate(_prepare(pair, inputs, params)):
            prepared.append(ready)
            own.append(_params(pair, ready, params[number]))
            yield _input(ready, inputs[number])

    try:
        internal: list[str] = original(self, pruned(), own, **kwargs)
    except BaseException:
        # vLLM takes back what it has added after an error, but not after Ctrl-C.
        _abort(self, [str(number) for number in range(first, self.request_counter.counter)])
        raise
    for number, name in enumerate(internal):
        samples = getattr(own[number], "n", 1)
        ids = (name,) if samples == 1 else tuple(f"{i}_{name}" for i in range(samples))
        sent = _Sent(whole[number], prepared[number].receipt, ids)
        pair.sent[str(first + number)] = sent
    return internal


def _refuse_own_keys(extra_args: Any) -> None:
    """Positions come from the speculator: a caller's would stand at another prompt's places."""
    found = own_keys(extra_args)
    if found:
        raise ConfigError(
            f"extra_args[{found[0]!r}] is for SpecPrefill itself to write: leave it out"
        )


def _prepare(pair: _Pair, inputs: Sequence[Any], params: Sequence[Any]) -> Iterator[PreparedPrompt]:
    """Yield a prepared prompt for each input, in order; those we cannot prune stay whole."""
    reasons = [_unsupported(*item) for item in zip(inputs, params, strict=True)]
    prompts = [
        Prompt(str(number), item.get("prompt") or "", tuple(item["prompt_token_ids"]))
        for number, (item, reason) in enumerate(zip(inputs, reasons, strict=True))
        if reason is None
    ]
    ready = pair.method.prepare(prompts, pair.context)
    for number, (item, reason) in enumerate(zip(inputs, reasons, strict=True)):
        yield next(ready) if reason is None else _whole(str(number), item, reason)


def _unsupported(item: Any, params: Any) -> str | None:
    if item.get("type") != "token":
        return f"inputs of type {item.get('type')} are prefilled whole"
    if getattr(params, "max_tokens", None) is None and not hasattr(params, "prompt_logprobs"):
        return "pooling requests are prefilled whole"
    if params.prompt_logprobs is not None:
        return "prompt log probabilities need the whole prompt"
    return None


def _whole(example: str, item: Any, reason: str) -> PreparedPrompt:
    tokens = tuple(item.get("prompt_token_ids") or ())
    receipt = Receipt(SpecPrefill.name, Status.UNSUPPORTED, reason, budget_kind=BudgetKind.TOKENS)
    return PreparedPrompt(example, tokens, None, len(tokens), receipt)


def _params(pair: _Pair, ready: PreparedPrompt, params: Any) -> Any:
    """A request's own parameters: its positions, and an answer inside the target's range."""
    if ready.positions is None:
        return params
    length = ready.original_length
    room = pair.limit - length
    own = params.clone()
    if own.max_tokens is None:
        own.max_tokens = max(1, room)  # vLLM's default would count kept tokens
    if own.max_tokens > room:
        raise ConfigError(
            f"{length} prompt tokens and {own.max_tokens} new ones exceed the target's "
            f"{pair.limit} positions: shorten the prompt or lower max_tokens"
        )
    positions = encode_positions(ready.positions, length)
    own.extra_args = {**(own.extra_args or {}), POSITIONS_KEY: positions}
    return own


def _input(ready: PreparedPrompt, item: Any) -> Any:
    """The request as vLLM takes it, with the kept tokens in the place of the prompt's."""
    if ready.positions is None:
        return item
    salt = positions_salt(ready.positions)
    user = item.get("cache_salt")
    return {
        **item,
        "prompt_token_ids": list(ready.token_ids),
        "cache_salt": salt if user is None else f"{user}/{salt}",
    }


def _run_engine(self: Any, *args: Any, **kwargs: Any) -> list[Any]:
    """``LLM._run_engine``: hand out the receipts with the outputs."""
    assert _enabled is not None
    pair: _Pair | None = getattr(self, _STATE, None)
    try:
        outputs: list[Any] = _enabled.original["_run_engine"](self, *args, **kwargs)
    except BaseException:
        if pair is not None:
            # Ctrl-C: without this the next call would get this one's requests and outputs.
            _abort(self, list(pair.sent))
            pair.sent.clear()
        raise
    if pair is None:
        return outputs
    sent = {output.request_id: pair.sent.pop(output.request_id, None) for output in outputs}
    names = [name for item in sent.values() if item is not None for name in item.internal]
    ranks = self.llm_engine.collective_rpc("specprefill_take_steps", args=(names,))
    for output in outputs:
        item = sent[output.request_id]
        if item is not None:
            output.specprefill = _counted(item, ranks)
            output.prompt_token_ids = list(item.token_ids)
    return outputs


def _abort(llm: Any, requests: list[str]) -> None:
    """Abort requests by the ids that their outputs would carry; the ended ones are no matter."""
    with contextlib.suppress(Exception):  # the engine may be what failed: its own error is raised
        llm.llm_engine.abort_request(requests)


def _counted(sent: _Sent, ranks: Sequence[dict[str, int]]) -> Receipt:
    """The receipt with the least number of steps in which any rank edited the positions."""
    steps = min(rank[name] for rank in ranks for name in sent.internal)
    return replace(sent.receipt, counters={**sent.receipt.counters, "positions_applied": steps})
