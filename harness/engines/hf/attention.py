"""Stand in for a transformers model's attention for a while, on its post-RoPE q, k and v."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4


@contextmanager
def attention_replaced(model: Any, function: Callable[..., tuple[Any, None]]) -> Iterator[None]:
    """Let ``function`` compute every attention layer of ``model`` inside the ``with`` block.

    Parameters
    ----------
    function
        ``function(module, query, key, value, attention_mask, scaling=, **kwargs)`` with query
        [1, Hq, N, d] and key, value [1, Hk, M, d], after rotary embedding and query/key norms
        (transformers' attention interface); returns the output [1, N, Hq, d] and None. No mask is
        made: a prefill from position 0 or a decode of one token is causal by itself.

    The model's configuration and transformers' registry are as before afterwards, also after an
    exception.
    """
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    name = f"harness_{uuid4().hex}"
    config = model.config.get_text_config()
    before = config._attn_implementation
    ALL_ATTENTION_FUNCTIONS[name] = function
    config._attn_implementation = name
    try:
        yield
    finally:
        config._attn_implementation = before
        del ALL_ATTENTION_FUNCTIONS[name]


def dense_attention(
    module: Any, query: Any, key: Any, value: Any, scaling: float
) -> tuple[Any, None]:
    """Causal attention of a whole prefill, or of one decode token: [1, N, Hq, d] and None."""
    from torch.nn.functional import scaled_dot_product_attention

    output = scaled_dot_product_attention(
        query, key, value, is_causal=query.shape[2] > 1, scale=scaling, enable_gqa=True
    )
    return output.transpose(1, 2).contiguous(), None
