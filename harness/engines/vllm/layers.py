"""The gate behind the gate: what a loaded model's own layers say, in the worker.

``config.json`` does not say everything (some ALiBi models are told by their size alone, options
of vLLM change a configuration), so after loading the layers are asked what they are. A kind of
layer that is not known here is refused: what nobody has looked at may read positions its own way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from harness.engines.vllm.refusals import Feature, Role, reason

_ATTENTION = "Attention"  # vLLM's one class for full and sliding-window decoder attention
_KINDS = {
    "MLAAttention": Feature.MLA,
    "MambaBase": Feature.HYBRID,
    "ChunkedLocalAttention": Feature.CHUNKED,
    "CrossAttention": Feature.ENCODER_DECODER,
    "EncoderOnlyAttention": Feature.ENCODER_DECODER,
    "StaticSinkAttention": Feature.SINKS,
}
_ROTARY = {
    "MRotaryEmbedding": Feature.MROPE,
    "DualChunkRotaryEmbedding": Feature.DUAL_CHUNK,
}


def attention_layers(context: Mapping[str, Any]) -> list[Any]:
    """The layers with a cache of their own, in the model's order.

    Parameters
    ----------
    context
        vLLM's ``static_forward_context``, which holds other things too (mixture-of-experts layers).
    """
    return [layer for layer in context.values() if "AttentionLayerBase" in _names(layer)]


def is_full(layer: Any, tokens: int) -> bool:
    """Whether a decoder layer's rows see all of a request that has ``tokens`` in the cache."""
    window = layer.sliding_window
    return layer.attn_type == "decoder" and (window is None or window >= tokens)


def most_tokens(runner: Any) -> int:
    """Tokens that a request may have in the cache: the last one sampled is never fed."""
    return int(runner.max_model_len) - 1


def refusal(
    role: Role, context: Mapping[str, Any], modules: Iterable[Any], tokens: int
) -> str | None:
    """Return why a loaded model cannot have a role, or None where it can.

    Parameters
    ----------
    modules
        All modules of the model, among which its rotary embeddings.
    tokens
        :func:`most_tokens` of a request: a window that none can leave is no window.

    Returns
    -------
    str or None
        One clause, as of :func:`harness.engines.vllm.refusals.refuse`.
    """
    layers = attention_layers(context)
    if not layers:
        return "none of its layers has a key cache"
    found = [*_rotary(modules), *(f for layer in layers for f in _features(layer, tokens))]
    for feature, size in found:
        # A sink is a part of the softmax that no position enters: targets may have them.
        if role == "speculator" or feature is not Feature.SINKS:
            return reason(feature, role, size)
    unknown = next((name for layer in layers if (name := _unknown(layer)) is not None), None)
    return unknown and f"it has layers of a kind nobody has looked at ({unknown})"


def _names(thing: Any) -> list[str]:
    return [kind.__name__ for kind in type(thing).__mro__]


def _rotary(modules: Iterable[Any]) -> Iterator[tuple[Feature, int | None]]:
    for module in modules:
        for name in _names(module):
            if name in _ROTARY:
                yield _ROTARY[name], None


def _features(layer: Any, tokens: int) -> Iterator[tuple[Feature, int | None]]:
    """What speaks against one layer."""
    kinds = [_KINDS[name] for name in _names(layer) if name in _KINDS]
    for kind in kinds:
        yield kind, getattr(layer, "attention_chunk_size", None)
    if kinds or _ATTENTION not in _names(layer):
        return
    if layer.attn_type != "decoder":
        yield Feature.ENCODER_DECODER, None
    if not is_full(layer, tokens):
        yield Feature.WINDOW, layer.sliding_window
    # The CPU backend and FlashAttention keep both under these names (tests/contract).
    if getattr(layer.impl, "alibi_slopes", None) is not None:
        yield Feature.ALIBI, None
    if getattr(layer.impl, "sinks", None) is not None:
        yield Feature.SINKS, None


def _unknown(layer: Any) -> str | None:
    """Name of a layer's class where it is neither vLLM's own attention nor listed above."""
    name = type(layer).__name__
    return None if name == _ATTENTION else name


def refusal_of(runner: Any, role: Role) -> str | None:
    """Return :func:`refusal` for the model that a V1 runner has loaded."""
    context = runner.compilation_config.static_forward_context
    return refusal(role, context, runner.get_model().modules(), most_tokens(runner))
