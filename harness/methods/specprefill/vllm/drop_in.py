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
from harness.engines.vllm import contract, flavour
from harness.engines.vllm.cpu import prepare_environment
from harness.engines.vllm.refusals import check_model, check_options, refused
from harness.errors import ConfigError, UnsupportedError
from harness.methods.base import MethodContext
from harness.methods.specprefill.config import SpecPrefillConfig
from harness.methods.specprefill.method import SpecPrefill
from harness.methods.specprefill.paper_config import read_paper_config
from harness.methods.specprefill.vllm.requests import (
    engine_input,
    parameters,
    prepare,
    refuse_own_keys,
)
from harness.methods.specprefill.vllm.scorer import VllmScorer
from harness.models.config_facts import (
    kv_bytes_per_token,
    overridden,
    position_range,
    read_config,
)
from harness.models.tokenizer import Tokenizer
from harness.schema.prompts import PreparedPrompt
from harness.schema.receipts import Receipt

_STATE = "_specprefill"


@dataclass(frozen=True)
class _Enabled:
    """What is enabled in this process, and vLLM's own methods, to be put back."""

    spec_model: str
    config: SpecPrefillConfig
    original: dict[str, Callable[..., Any]]


_enabled: _Enabled | None = None


def enable_prefill_spec(
    spec_model: str, spec_config_path: str | Path | None = None, *, min_tokens: int | None = None
) -> None:
    """Give every ``vllm.LLM`` built from now on a speculator; call it before building one.

    Parameters
    ----------
    spec_model
        Folder or hub name of the speculator; it must share the target's tokenizer.
    spec_config_path
        A YAML file with the paper's keys (:mod:`harness.methods.specprefill.paper_config`); None
        for the paper's main configuration.
    min_tokens
        Prompts below this many tokens are prefilled whole, with the status
        ``skipped_min_tokens``; None for the file's ``min_tokens``, 512 where it has none.

    Raises
    ------
    HarnessError
        The file or the model cannot be read.
    """
    global _enabled  # noqa: PLW0603  (one patch a process, undone by disable_prefill_spec)
    config = read_paper_config(spec_config_path)
    if min_tokens is not None:
        if min_tokens < 0:
            raise ConfigError(f"min_tokens is {min_tokens}: give a number of tokens, 0 for none")
        config = config.model_copy(update={"min_tokens": min_tokens})
    check_model(spec_model, read_config(spec_model), "speculator")
    prepare_environment()
    contract.check()
    disable_prefill_spec()
    from vllm.entrypoints.llm import LLM

    contract.check_llm(LLM)
    _enabled = _Enabled(
        spec_model, config, {name: getattr(LLM, name) for name in contract.LLM_NEEDED}
    )
    LLM.__init__ = _init
    LLM._render_and_add_requests = _render_and_add_requests
    LLM._run_engine = _run_engine
    LLM.beam_search = _beam_search


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
    config = overridden(read_config(model), kwargs.get("hf_overrides"))
    check_options(kwargs)
    check_model(model, config, "target")
    _check_tokenizers(kwargs.get("tokenizer") or model, _enabled.spec_model)
    if kwargs.get("worker_cls", "auto") != "auto":
        raise ConfigError("SpecPrefill needs its own worker_cls: leave yours out")
    kwargs["worker_cls"] = found.worker_class("target")
    if found.device == "cpu":
        kwargs.setdefault("kv_cache_memory_bytes", _cpu_cache_bytes(config, kwargs))
    _enabled.original["__init__"](self, model, *args, **kwargs)
    try:
        why = next(filter(None, self.llm_engine.collective_rpc("specprefill_refusal")), None)
        if why is not None:
            raise refused(model, "target", why)
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
    *,
    lora_requests: Sequence[Any] | None = None,
    **kwargs: Any,
) -> list[str]:
    """``LLM._render_and_add_requests``: put pruned prompts in the place of whole ones."""
    assert _enabled is not None
    original = _enabled.original["_render_and_add_requests"]
    pair: _Pair | None = getattr(self, _STATE, None)
    if pair is None:  # built before enable_prefill_spec
        added: list[str] = original(self, prompts, params, lora_requests=lora_requests, **kwargs)
        return added
    for item in params:
        refuse_own_keys(item)
    prepared: list[PreparedPrompt] = []
    whole: list[tuple[int, ...]] = []
    own: list[Any] = []
    first = self.request_counter.counter

    def pruned() -> Iterator[Any]:
        inputs = list(prompts)
        whole.extend(tuple(item.get("prompt_token_ids") or ()) for item in inputs)
        adapters = lora_requests or [None] * len(inputs)
        # Cold: a script may run for days, and the scores of its prompts serve nobody else.
        ready_ones = prepare(pair.method, pair.context.cold(), inputs, params, adapters)
        for number, ready in enumerate(ready_ones):
            prepared.append(ready)
            own.append(parameters(ready, whole[number], params[number], pair.limit))
            yield engine_input(ready, inputs[number])

    try:
        internal: list[str] = original(self, pruned(), own, lora_requests=lora_requests, **kwargs)
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


def _beam_search(self: Any, *args: Any, **kwargs: Any) -> Any:
    """``LLM.beam_search``: refused, since each of its steps is a request with the answer so far.

    Pruned, such a prompt would lose parts of the beam itself.
    """
    assert _enabled is not None
    if getattr(self, _STATE, None) is None:
        return _enabled.original["beam_search"](self, *args, **kwargs)
    raise UnsupportedError(
        "beam_search would have its own beams pruned at every step: use generate, or "
        "disable_prefill_spec() first"
    )


def _abort(llm: Any, requests: list[str]) -> None:
    """Abort requests by the ids that their outputs would carry; the ended ones are no matter."""
    with contextlib.suppress(Exception):  # the engine may be what failed: its own error is raised
        llm.llm_engine.abort_request(requests)


def _counted(sent: _Sent, ranks: Sequence[dict[str, int]]) -> Receipt:
    """The receipt with the least number of steps in which any rank edited the positions."""
    steps = min(rank[name] for rank in ranks for name in sent.internal)
    return replace(sent.receipt, counters={**sent.receipt.counters, "positions_applied": steps})
