"""Takes queries and keys out of a transformers model's attention, and undoes itself."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

_NAME = "specprefill_capture"


@dataclass
class LayerCapture:
    """One full-attention layer: the wanted queries, and the newest keys.

    Attributes
    ----------
    queries
        [rows, Hq, d] tensors in the order in which they ran; post-RoPE and post-norm.
    keys
        [1, Hk, T, d], every key of the cache; post-RoPE and post-norm.
    """

    scale: float
    softcap: float | None
    queries: list[Tensor] = field(default_factory=list)
    keys: Tensor | None = None


class Capture:
    """Notes the last ``rows`` queries of every pass, layer by layer.

    Layers with a sliding window or without attention give nothing: they are not scored. A window
    that reaches over all ``positions`` of the model is none.
    """

    def __init__(self, base: str, positions: int) -> None:
        self.base = base
        self.positions = positions
        self.rows = 0
        self.layers: dict[int, LayerCapture] = {}

    def start(self) -> None:
        """Forget what was noted."""
        self.layers = {}

    def attention(
        self, module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, **kwargs: Any
    ) -> Any:
        """Note, then attend as the model would without us (transformers' attention interface)."""
        window = kwargs.get("sliding_window") or getattr(module, "sliding_window", None)
        if self.rows and (not window or window >= self.positions):
            self._note(module, query, key, kwargs)
        return _attention_of(self.base, module)(module, query, key, value, mask, **kwargs)

    def _note(self, module: Any, query: Tensor, key: Tensor, kwargs: dict[str, Any]) -> None:
        layer = self.layers.get(module.layer_idx)
        if layer is None:
            scale = kwargs.get("scaling") or query.shape[-1] ** -0.5
            layer = LayerCapture(float(scale), kwargs.get("softcap"))
            self.layers[module.layer_idx] = layer
        layer.queries.append(query[0, :, -self.rows :].transpose(0, 1).clone())
        layer.keys = key


def _attention_of(base: str, module: Any) -> Callable[..., Any]:
    """Return the attention function that ``base`` names, as the model's own file resolves it."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    if base == "eager":
        function = sys.modules[type(module).__module__].eager_attention_forward
    else:
        function = ALL_ATTENTION_FUNCTIONS[base]
    chosen: Callable[..., Any] = function
    return chosen


@contextmanager
def capturing(model: Any, positions: int) -> Iterator[Capture]:
    """Route a model's attention through a :class:`Capture`; leaving restores everything."""
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    base = model.config._attn_implementation
    capture = Capture(base, positions)
    name = f"{_NAME}_{id(capture)}"
    ALL_ATTENTION_FUNCTIONS[name] = capture.attention
    ALL_MASK_ATTENTION_FUNCTIONS[name] = ALL_MASK_ATTENTION_FUNCTIONS[base]
    try:
        model.set_attn_implementation(name)
        yield capture
    finally:
        model.set_attn_implementation(base)
        del ALL_ATTENTION_FUNCTIONS[name]
        del ALL_MASK_ATTENTION_FUNCTIONS[name]
