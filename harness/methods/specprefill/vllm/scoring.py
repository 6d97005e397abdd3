"""Query rows against the paged cache's keys, layer by layer: the speculator worker's arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from harness.engines.scorer import ScoringConfig
from harness.errors import ConfigError
from harness.methods.specprefill.importance import attention_logits, layer_importance
from harness.methods.specprefill.window_merge import WindowMerge, make_merge
from harness.methods.specprefill.windows import WindowPlan, plan_windows

if TYPE_CHECKING:
    from harness.engines.vllm.wire import Rows, WindowPart
    from harness.methods.specprefill.vllm.keycache import KeyLayout


@dataclass(frozen=True)
class Captured:
    """One request's query rows, and where its keys are.

    Attributes
    ----------
    layers
        The scored vLLM ``Attention`` layers.
    queries
        [layers, N, heads, head size], post-RoPE.
    blocks
        Each layer's block table for this request: its prompt's keys, then those of the N−1
        look-ahead tokens.
    """

    layers: Sequence[Any]
    layout: KeyLayout
    queries: torch.Tensor
    blocks: Sequence[Sequence[int]]

    def read(
        self, keys: int, config: ScoringConfig
    ) -> Iterator[tuple[Any, torch.Tensor, torch.Tensor, torch.Tensor | None]]:
        """Yield (layer, queries [N, H, d], prompt keys [M, Hk, d], look-ahead keys or None)."""
        visible = config.normalize == "visible"
        total = keys + self.queries.shape[1] - 1 if visible else keys
        for layer, query, table in zip(self.layers, self.queries, self.blocks, strict=True):
            found = self.layout.gather(layer.kv_cache, table, total).permute(2, 0, 1)
            yield layer, query, found[:keys], found[keys:] if visible else None


def score_whole(captured: Captured, keys: int, config: ScoringConfig) -> torch.Tensor:
    """Maximum over layers and heads of the pooled attention of each row.

    Parameters
    ----------
    keys
        M, the number of prompt tokens.

    Returns
    -------
    torch.Tensor
        float32 [N, M] (ALGORITHM.md, Scoring 2–4, before the mean over rows).
    """
    best = captured.queries.new_zeros((captured.queries.shape[1], keys), dtype=torch.float32)
    for layer, query, prompt, ahead in captured.read(keys, config):
        here = layer_importance(
            query, prompt, layer.impl.scale, config, softcap=_softcap(layer), ahead_keys=ahead
        )
        torch.maximum(best, here, out=best)
    return best


def check_window(rows: Rows) -> None:
    """Refuse a window that is none of its prompt's plan.

    Raises
    ------
    ConfigError
        The plan cannot be made, has no such window, or that window has another length.
    """
    part = rows.window
    assert part is not None  # the caller has looked
    plan = _plan(part, rows.config())
    if part.number >= len(plan.windows) or len(plan.windows[part.number]) != rows.keys:
        raise ConfigError(
            f"window {part.number} of {rows.keys} tokens is none of the {len(plan.windows)} "
            f"windows of a prompt of {part.length}"
        )


def _plan(part: WindowPart, config: ScoringConfig) -> WindowPlan:
    return plan_windows(
        part.length,
        part.max_positions,
        config,
        has_bos=part.has_bos,
        tail_tokens=part.tail_tokens,
    )


class WindowedPrompt:
    """A prompt beyond the speculator's range: collects its windows' logits, then merges them."""

    def __init__(self, part: WindowPart, config: ScoringConfig) -> None:
        self.plan = _plan(part, config)
        self.config = config
        self._merge: WindowMerge = make_merge(self.plan, config)

    def add(self, number: int, captured: Captured) -> None:
        """Take in window ``number``."""
        window = self.plan.windows[number]
        read = captured.read(len(window), self.config)
        for index, (layer, query, prompt, ahead) in enumerate(read):
            scale, softcap = layer.impl.scale, _softcap(layer)
            logits = attention_logits(query, prompt, scale, softcap)
            tail = None if ahead is None else attention_logits(query, ahead, scale, softcap)
            self._merge.add(window, index, logits, tail)

    def rows(self) -> torch.Tensor:
        """float32 [N, M] of the whole prompt; once, when every window is in."""
        return self._merge.rows()


def _softcap(layer: Any) -> float | None:
    return getattr(layer.impl, "logits_soft_cap", None) or None
