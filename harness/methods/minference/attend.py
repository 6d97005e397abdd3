"""One layer of one prompt under MInference, whichever engine the q, k and v come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor

from harness.errors import UnsupportedError
from harness.methods.minference import fused
from harness.methods.minference.budget import within
from harness.methods.minference.kernel import sparse_attention
from harness.methods.minference.patterns import RANKERS, Layer, published
from harness.methods.minference.published import HeadPattern
from harness.schema.receipts import REFERENCE_KERNEL


class Attended(NamedTuple):
    """Output [H, M, d], the achieved share of the causal pairs, and the kernel's name."""

    out: Tensor
    share: float
    kernel: str


@dataclass
class Computed:
    """What a prompt's layers computed: shares of the causal pairs by layer, and the kernels.

    A prompt that is prefilled again overwrites its layers.
    """

    shares: dict[int, float] = field(default_factory=dict)
    kernels: set[str] = field(default_factory=set)

    def add(self, layer: int, attended: Attended) -> Tensor:
        """Take a layer, and return its output."""
        self.shares[layer] = attended.share
        self.kernels.add(attended.kernel)
        return attended.out

    @property
    def layers(self) -> int:
        """Layers that attended sparsely."""
        return len(self.shares)

    @property
    def share(self) -> float:
        """Mean share over the layers."""
        return sum(self.shares.values()) / len(self.shares)

    @property
    def kernel(self) -> str:
        """Names of the kernels."""
        return ", ".join(sorted(self.kernels))


def refuse_parts(parts: Mapping[str, Any]) -> None:
    """Refuse an attention with a part that the sparse kernels do not have: what is set, by name.

    Raises
    ------
    UnsupportedError
        A part is there: neither None nor the number 0, by which vLLM says the same.
    """
    for name, value in parts.items():
        if value is not None and not (isinstance(value, (int, float)) and value == 0):
            raise UnsupportedError(f"MInference has no attention with {name}")


def attend(
    qkv: tuple[Tensor, Tensor, Tensor],
    scale: float,
    knobs: Mapping[str, Any],
    patterns: Sequence[HeadPattern] | None,
) -> Attended:
    """Attend sparsely over a whole prompt.

    Parameters
    ----------
    qkv
        q [H, M, d]; k and v [Hkv, M, d], where Hkv divides H (grouped queries).
    knobs
        The arm's options (:class:`harness.methods.minference.MInference`).
    patterns
        This layer's published head patterns, which then stand instead of the knobs'.
    """
    q, k, _ = qkv
    every = k.repeat_interleave(q.shape[0] // k.shape[0], 0)
    layer = Layer(q, every, scale, knobs["block"], knobs["sink"], knobs["last_queries"])
    if patterns is None:
        chosen = within(RANKERS[knobs["pattern"]](layer), knobs["keep"], layer.block)
    else:
        chosen = published(layer, patterns)
    if fused.fits(q, layer.block):
        return Attended(fused.fused_attention(qkv, chosen, scale), chosen.share(), fused.NAME)
    return Attended(sparse_attention(qkv, chosen, scale), chosen.share(), REFERENCE_KERNEL)
