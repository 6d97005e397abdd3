"""What becomes of a plain ``vllm.LLM``'s request: pruned where that is exact, whole elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from harness.engines.vllm.wire import (
    POSITIONS_KEY,
    encode_positions,
    own_keys,
    positions_salt,
)
from harness.errors import ConfigError
from harness.methods.base import MethodContext
from harness.methods.specprefill.method import SpecPrefill
from harness.schema.prompts import PreparedPrompt, Prompt
from harness.schema.receipts import BudgetKind, Receipt, Status


def refuse_own_keys(params: Any) -> None:
    """Refuse a caller's own positions, which would stand at another prompt's places.

    Raises
    ------
    ConfigError
        ``params.extra_args`` has a name that only SpecPrefill may write.
    """
    found = own_keys(getattr(params, "extra_args", None))
    if found:
        raise ConfigError(
            f"extra_args[{found[0]!r}] is for SpecPrefill itself to write: leave it out"
        )


def prepare(
    method: SpecPrefill,
    context: MethodContext,
    inputs: Sequence[Any],
    params: Sequence[Any],
    adapters: Sequence[Any],
) -> Iterator[PreparedPrompt]:
    """Yield a prepared prompt for each input, in order; those we cannot prune stay whole.

    Parameters
    ----------
    inputs
        vLLM's ``EngineInput`` of each request.
    params
        Its ``SamplingParams`` or ``PoolingParams``.
    adapters
        Its ``LoRARequest`` or None.
    """
    reasons = [_unsupported(*item) for item in zip(inputs, params, strict=True)]
    prompts = [
        Prompt(str(number), item.get("prompt") or "", tuple(item["prompt_token_ids"]))
        for number, (item, reason) in enumerate(zip(inputs, reasons, strict=True))
        if reason is None
    ]
    pruned = method.prepare(prompts, context)
    for number, (item, reason, adapter) in enumerate(zip(inputs, reasons, adapters, strict=True)):
        ready = next(pruned) if reason is None else _whole(str(number), item, reason)
        yield ready if adapter is None else _with_adapter(ready, adapter)


def _unsupported(item: Any, params: Any) -> str | None:
    """Say why a request cannot be pruned; None where it can."""
    if item.get("type") != "token":
        return f"inputs of type {item.get('type')} are prefilled whole"
    if not hasattr(params, "prompt_logprobs"):
        return "pooling requests are prefilled whole"
    # prompt_logprob_token_ids: vLLM 0.32 on.
    if params.prompt_logprobs is not None or (
        getattr(params, "prompt_logprob_token_ids", None) is not None
    ):
        return "prompt log probabilities need the whole prompt"
    if getattr(params, "thinking_token_budget", None) is not None:
        return "thinking_token_budget looks for an open thought in the whole prompt"
    return None


def _whole(example: str, item: Any, reason: str) -> PreparedPrompt:
    tokens = tuple(item.get("prompt_token_ids") or ())
    receipt = Receipt(SpecPrefill.name, Status.UNSUPPORTED, reason, budget_kind=BudgetKind.TOKENS)
    return PreparedPrompt(example, tokens, None, len(tokens), receipt)


def _with_adapter(ready: PreparedPrompt, adapter: Any) -> PreparedPrompt:
    """Say in a pruned prompt's receipt that the target has an adapter and the scorer has not."""
    if ready.positions is None:
        return ready
    note = {"lora": f"the speculator scored without the adapter {adapter.lora_name}"}
    receipt = replace(ready.receipt, details={**ready.receipt.details, **note})
    return replace(ready, receipt=receipt)


def parameters(ready: PreparedPrompt, whole: Sequence[int], params: Any, limit: int) -> Any:
    """A request's own parameters: its positions, and an answer inside the target's range.

    Parameters
    ----------
    whole
        Token ids of the original prompt.
    limit
        The target's positions.

    Raises
    ------
    ConfigError
        Prompt and answer exceed the range.
    """
    if ready.positions is None:
        return params
    length = ready.original_length
    room = limit - length
    own = params.clone()
    if own.max_tokens is None:
        own.max_tokens = max(1, room)  # vLLM's default would count kept tokens
    if own.max_tokens > room:
        raise ConfigError(
            f"{length} prompt tokens and {own.max_tokens} new ones exceed the target's "
            f"{limit} positions: shorten the prompt or lower max_tokens"
        )
    # The presence and frequency penalties count generated tokens, this one the prompt's too.
    penalized = own.repetition_penalty != 1.0
    dropped = set(whole).difference(ready.token_ids) if penalized else ()
    positions = encode_positions(ready.positions, length, dropped)
    own.extra_args = {**(own.extra_args or {}), POSITIONS_KEY: positions}
    return own


def engine_input(ready: PreparedPrompt, item: Any) -> Any:
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
