"""What loaded layers say of a model, whatever its config.json said."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from harness.engines.vllm.layers import attention_layers, is_full, refusal, refusal_of

TOKENS = 1023


class AttentionLayerBase:
    """VLLM's base of everything with a key cache."""


class Attention(AttentionLayerBase):
    """VLLM's full and sliding-window attention."""

    def __init__(self, window=None, kind="decoder", **impl):
        self.sliding_window, self.attn_type = window, kind
        self.impl = SimpleNamespace(**{"alibi_slopes": None, "sinks": None, **impl})


class ChunkedLocalAttention(Attention):
    attention_chunk_size = 512


class CrossAttention(Attention):
    pass


class NewAttention(Attention):
    pass


class MLAAttention(AttentionLayerBase):
    pass


class MambaBase(AttentionLayerBase):
    pass


class GatedDeltaNet(MambaBase):
    pass


class Experts:
    """Stands in the same context and has no cache."""


class RotaryEmbedding:
    pass


class MRotaryEmbedding(RotaryEmbedding):
    pass


class InterleavedMRotaryEmbedding(MRotaryEmbedding):
    pass


class DualChunkRotaryEmbedding:
    pass


def asked(role, *layers, modules=()):
    """The refusal for a model with these layers after a full one."""
    context = {str(i): layer for i, layer in enumerate((Attention(), Experts(), *layers))}
    return refusal(role, context, (RotaryEmbedding(), *modules), TOKENS)


@pytest.mark.parametrize("role", ["target", "speculator"])
def test_full_attention_is_served(role):
    """One kind of layer, and windows that no request can leave; other modules do not matter."""
    assert asked(role) is None
    assert asked(role, Attention(window=TOKENS)) is None


@pytest.mark.parametrize("role", ["target", "speculator"])
@pytest.mark.parametrize(
    ("layer", "names"),
    [
        (Attention(window=64), "sliding-window attention of 64 tokens"),
        (Attention(kind="encoder_only"), "encoder-decoder"),
        (Attention(alibi_slopes=[0.5]), "ALiBi"),
        (ChunkedLocalAttention(), "chunked local attention of 512 tokens"),
        (CrossAttention(), "encoder-decoder"),
        (MLAAttention(), "MLA"),
        (GatedDeltaNet(), "hybrid"),
        (NewAttention(), "nobody has looked at (NewAttention)"),
    ],
    ids=lambda value: "" if isinstance(value, str) else type(value).__name__,
)
def test_every_other_kind_of_layer_is_named(role, layer, names):
    """One such layer among full ones is enough; a kind that is not known is refused too."""
    assert names in (asked(role, layer) or "")


@pytest.mark.parametrize("role", ["target", "speculator"])
@pytest.mark.parametrize(
    ("module", "names"),
    [
        (MRotaryEmbedding(), "M-RoPE"),
        (InterleavedMRotaryEmbedding(), "M-RoPE"),
        (DualChunkRotaryEmbedding(), "dual chunk"),
    ],
)
def test_the_kind_of_rope_is_asked_too(role, module, names):
    """Several positions a token, or several rotations a query."""
    assert names in (asked(role, modules=(module,)) or "")


def test_sinks_are_no_matter_of_positions():
    """A target may have them; a speculator's scores would leave them out."""
    layer = Attention(sinks=[0.1])
    assert asked("target", layer) is None
    assert "attention sinks" in (asked("speculator", layer) or "")


def test_a_model_without_a_key_cache_is_neither():
    """Nothing to score, and nothing to place tokens in."""
    assert "key cache" in (refusal("speculator", {"experts": Experts()}, (), TOKENS) or "")
    assert attention_layers({"experts": Experts()}) == []


def test_a_window_counts_fed_tokens():
    """The last sampled token is never fed: max_model_len − 1 tokens are all there can be."""
    runner = SimpleNamespace(
        compilation_config=SimpleNamespace(static_forward_context={"a": Attention(window=1023)}),
        get_model=lambda: SimpleNamespace(modules=list),
        max_model_len=1024,
    )
    assert refusal_of(runner, "speculator") is None
    runner.max_model_len = 1025
    assert "sliding-window" in (refusal_of(runner, "speculator") or "")
    assert is_full(Attention(), 10**9)
