"""How scores of several windows become the scores of one prompt (ALGORITHM.md, Merge)."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from harness.engines.scorer import ScoringConfig
from harness.methods.specprefill.importance import log_denominator, row_importance
from harness.methods.specprefill.windows import Window, WindowPlan


class WindowMerge(Protocol):
    """Collects attention logits, window by window and layer by layer, then gives the rows."""

    def add(
        self, window: Window, layer: int, logits: Tensor, ahead_logits: Tensor | None = None
    ) -> None:
        """Take one window's logits of one layer: [H, N', window tokens] (float32).

        ``ahead_logits`` [H, N', N'−1] are those of the look-ahead keys; only
        ``normalize: visible`` needs them.
        """

    def rows(self) -> Tensor:
        """Return ``Scores.rows``: float32 [N', M]. Call once, after every window and layer."""


def make_merge(plan: WindowPlan, config: ScoringConfig) -> WindowMerge:
    """Return the merge that a configuration asks for."""
    if config.window_query == "window_end" or len(plan.windows) == 1:
        return SeparateMerge(plan, config)
    return TailMerge(plan, config)


class TailMerge:
    """Windows that share their query rows: one distribution over all contributed keys.

    Per layer, head and row, ``joint`` is one softmax over all contributed logits. ``anchor`` first
    subtracts each window's logsumexp over BOS + tail, which all windows contain, so that windows
    are compared relative to what they share. ``minmax`` keeps each window's own softmax; its
    min-max to [0, 1] follows once, on the merged importance
    (:func:`harness.methods.specprefill.selection.merged_importance`). Pooling and the maximum over
    heads come after merging, so that no window border shows.

    Memory: layers × H × N × M floats, since the denominator is known only at the end.
    """

    def __init__(self, plan: WindowPlan, config: ScoringConfig) -> None:
        self.plan = plan
        self.config = config
        self._merged: dict[int, Tensor] = {}
        self._ahead: dict[int, Tensor] = {}

    def add(
        self, window: Window, layer: int, logits: Tensor, ahead_logits: Tensor | None = None
    ) -> None:
        """See :class:`WindowMerge`."""
        shift = self._shift(window, logits, ahead_logits)
        if layer not in self._merged:
            self._merged[layer] = logits.new_empty((*logits.shape[:2], self.plan.length))
        merged = self._merged[layer]
        for span in window.contributes:
            merged[..., span.start : span.stop] = logits[..., window.local(span)] - shift
        if window is self.plan.windows[-1] and ahead_logits is not None:
            self._ahead[layer] = ahead_logits - shift

    def _shift(self, window: Window, logits: Tensor, ahead_logits: Tensor | None) -> Tensor:
        """What to subtract from a window's logits, per head and row: [H, N, 1]."""
        if self.config.merge == "joint":
            return logits.new_zeros((*logits.shape[:2], 1))
        if self.config.merge == "minmax":
            return log_denominator(logits, self.config, ahead_logits)
        shared = [logits[..., window.local(span)] for span in self.plan.anchor]
        return torch.logsumexp(torch.cat(shared, dim=-1), dim=-1, keepdim=True)

    def rows(self) -> Tensor:
        """See :class:`WindowMerge`."""
        best: Tensor | None = None
        for layer in sorted(self._merged):
            merged, ahead = self._merged.pop(layer), self._ahead.pop(layer, None)
            already_normal = self.config.merge == "minmax"
            here = row_importance(merged, self.config, ahead, normalized=already_normal)
            best = here if best is None else torch.maximum(best, here)
        assert best is not None  # a plan has windows, a model layers
        return best


class SeparateMerge:
    """Windows scored each for itself: every window gives its contributed tokens' importance.

    For ``window_end``, where windows have different queries, and for a single window. Rows that
    a window lacks (its look-ahead met an EOS) are filled with the mean of its rows, which leaves
    the mean over any number of rows as it was.
    """

    def __init__(self, plan: WindowPlan, config: ScoringConfig) -> None:
        self.plan = plan
        self.config = config
        self._best: dict[int, Tensor] = {}
        self._index = {id(window): i for i, window in enumerate(plan.windows)}

    def add(
        self, window: Window, layer: int, logits: Tensor, ahead_logits: Tensor | None = None
    ) -> None:
        """See :class:`WindowMerge`."""
        here = row_importance(logits, self.config, ahead_logits)
        index = self._index[id(window)]
        known = self._best.get(index)
        self._best[index] = here if known is None else torch.maximum(known, here)

    def rows(self) -> Tensor:
        """See :class:`WindowMerge`."""
        count = max(best.shape[0] for best in self._best.values())
        first = self._best[0]
        out = first.new_empty((count, self.plan.length))
        for index, window in enumerate(self.plan.windows):
            best = self._best[index]
            missing = best.mean(dim=0, keepdim=True).expand(count - best.shape[0], -1)
            filled = torch.cat([best, missing])
            for span in window.contributes:
                out[:, span.start : span.stop] = filled[:, window.local(span)]
        return out
