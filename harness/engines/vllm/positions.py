"""The target's hook: a vLLM V1 model runner that puts tokens at their original positions.

Only the positions handed to the model are edited, after vLLM has built slot mapping and
attention metadata: those two must see the compact indices under which the KV cache holds the
kept tokens. The edit is in place, because captured graphs read that buffer.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.engines.vllm.layers import refusal_of
from harness.engines.vllm.wire import decode_positions
from harness.errors import ConfigError

if TYPE_CHECKING:
    import torch

_log = logging.getLogger(__name__)
_REMEMBERED = 4096  # finished requests whose counters nobody has asked for yet


class _Entry(NamedTuple):
    table: torch.Tensor  # int64 [K]
    shift: int  # resume − K: what a decoded token's compact index lacks
    dropped: torch.Tensor  # int64: token ids that only dropped tokens have, where they count


class PositionTable:
    """Original positions of the live requests, and how many steps each was edited in."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._steps: dict[str, int] = {}
        self._finished: OrderedDict[str, int] = OrderedDict()

    def learn(
        self, request: str, extra_args: Mapping[str, Any] | None, tokens: int, device: Any
    ) -> None:
        """Read the positions of a new request of ``tokens`` prompt tokens, if it carries any.

        What admission would have refused is left alone and logged: an error here would end the
        engine for everybody. The request's receipt then shows that no step was edited.
        """
        import torch

        try:
            positions = decode_positions(extra_args, tokens)
        except ConfigError as fault:
            _log.error("request %s is prefilled where it stands: %s", request, fault)
            return
        if positions is None:
            return
        table = torch.tensor(positions.values, dtype=torch.int64, device=device)
        dropped = torch.tensor(positions.dropped, dtype=torch.int64, device=device)
        self._entries[request] = _Entry(table, positions.resume - len(table), dropped)
        self._steps[request] = 0

    def forget(self, requests: Iterable[str]) -> None:
        """Drop finished requests; their counters stay until taken."""
        for request in requests:
            if self._entries.pop(request, None) is not None:
                self._finished[request] = self._steps.pop(request)
        while len(self._finished) > _REMEMBERED:
            self._finished.popitem(last=False)

    def edit(
        self,
        positions: torch.Tensor,
        order: Sequence[str],
        computed: Sequence[int],
        scheduled: Mapping[str, int],
    ) -> None:
        """Replace compact by original positions, in place.

        Parameters
        ----------
        positions
            int64 [tokens of this step], the requests' slices one after another in ``order``;
            a request's slice holds its compact indices ``computed`` … ``computed + scheduled``.
        """
        if not self._entries:
            return
        start = 0
        for request, done in zip(order, computed, strict=False):
            stop = start + scheduled[request]
            entry = self._entries.get(request)
            if entry is not None:
                _place(positions[start:stop], int(done), entry)
                self._steps[request] += 1
            start = stop

    def widen(self, prompts: torch.Tensor, order: Sequence[str], padding: int) -> torch.Tensor:
        """Add the dropped tokens' ids to the prompts by which vLLM penalizes repetitions.

        Parameters
        ----------
        prompts
            int64 [requests, longest prompt]: prompt tokens, a row a request of ``order``.
        padding
            The size of the vocabulary, which is no token's id.

        Returns
        -------
        torch.Tensor
            int64 [requests, longest prompt and longest addition]; ``prompts`` itself where no
            request has any.
        """
        import torch

        entries = [self._entries.get(name) for name in order[: len(prompts)]]
        width = max((len(entry.dropped) for entry in entries if entry is not None), default=0)
        if not width:
            return prompts
        added = prompts.new_full((len(prompts), width), padding)
        for row, entry in zip(added, entries, strict=True):
            if entry is not None:
                row[: len(entry.dropped)] = entry.dropped
        # An id beyond the vocabulary would write outside the counts.
        return torch.cat([prompts, added.clamp_(max=padding)], dim=1)

    def take_steps(self, requests: Sequence[str]) -> dict[str, int]:
        """Steps in which each request's positions were edited; finished ones are let go."""
        return {
            request: self._finished.pop(request, self._steps.get(request, 0))
            for request in requests
        }


def _place(view: torch.Tensor, done: int, entry: _Entry) -> None:
    """Write the positions of tokens ``done`` … ``done + len(view)`` of one request."""
    in_prompt = max(0, min(len(entry.table) - done, len(view)))
    view[:in_prompt] = entry.table[done : done + in_prompt]
    view[in_prompt:] += entry.shift


class PositionsMixin:
    """Runner mixin: place it before vLLM's V1 ``GPUModelRunner`` (or its CPU subclass)."""

    _table: PositionTable | None = None
    _shown: Any = None  # the last sampling metadata that _show_whole_prompts has seen to

    @property
    def specprefill_table(self) -> PositionTable:
        """The table of live requests."""
        if self._table is None:
            self._table = PositionTable()
        return self._table

    def _update_states(self, scheduler_output: Any) -> Any:
        table = self.specprefill_table
        # Finished before new: an id may be used again in the step that ends it.
        table.forget(scheduler_output.finished_req_ids)
        for new in scheduler_output.scheduled_new_reqs:
            if new.sampling_params is not None:
                tokens = len(new.prompt_token_ids or ())
                table.learn(new.req_id, new.sampling_params.extra_args, tokens, self.device)  # type: ignore[attr-defined]
        return super()._update_states(scheduler_output)  # type: ignore[misc]

    def _preprocess(self, scheduler_output: Any, *args: Any, **kwargs: Any) -> Any:
        prepared = super()._preprocess(scheduler_output, *args, **kwargs)  # type: ignore[misc]
        batch = self.input_batch  # type: ignore[attr-defined]
        self._show_whole_prompts(batch)
        self._edit_positions(
            prepared[2],
            batch.req_ids,
            batch.num_computed_tokens_cpu,
            scheduler_output.num_scheduled_tokens,
        )
        return prepared

    def _show_whole_prompts(self, batch: Any) -> None:
        """Let a repetition penalty see the prompt's dropped tokens, as with full prefill."""
        metadata = batch.sampling_metadata
        # vLLM makes the metadata anew when the batch changes, and keeps them while it does not.
        if metadata is self._shown or metadata.prompt_token_ids is None:
            return
        metadata.prompt_token_ids = self.specprefill_table.widen(
            metadata.prompt_token_ids, batch.req_ids, batch.vocab_size
        )
        self._shown = metadata

    def _edit_positions(
        self,
        positions: torch.Tensor,
        order: Sequence[str],
        computed: Sequence[int],
        scheduled: Mapping[str, int],
    ) -> None:
        """Edit in place; apart, so that a test can drop it (the mutation of ALGORITHM.md)."""
        self.specprefill_table.edit(positions, order, computed, scheduled)


class PositionCounters:
    """Worker mixin: what the engine asks its workers for, by name, over ``collective_rpc``."""

    def specprefill_refusal(self) -> str | None:
        """Why the loaded model cannot be a target, from its layers; None where it can."""
        return refusal_of(self.model_runner, "target")  # type: ignore[attr-defined]

    def specprefill_take_steps(self, requests: Sequence[str]) -> dict[str, int]:
        """Return :meth:`PositionTable.take_steps` of this worker's runner."""
        steps: dict[str, int] = self.model_runner.specprefill_table.take_steps(requests)  # type: ignore[attr-defined]
        return steps
