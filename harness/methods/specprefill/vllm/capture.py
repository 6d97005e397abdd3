"""The speculator's hook: keep the query rows, score them once when the request ends.

A wrapper around each full-attention layer's ``impl.forward`` copies the post-RoPE queries of the
rows that a request asked for. Nothing else happens while the request runs: the keys are read
from the paged cache once, in the step that frees them.

vLLM names a request that was aborted like one that has ended, and frees its blocks at once. So
only a request that is complete is scored: all its rows are there (or a stop token ended them) and
its own keys stand in its blocks.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.engines.vllm.layers import attention_layers, is_full, most_tokens, refusal_of
from harness.engines.vllm.wire import Rows, decode_rows
from harness.errors import ConfigError, EngineRefusedError

if TYPE_CHECKING:
    import torch

    from harness.engines.scorer import ScoringConfig
    from harness.engines.vllm.wire import WindowPart
    from harness.methods.specprefill.vllm.keycache import KeyLayout
    from harness.methods.specprefill.vllm.scoring import WindowedPrompt

_log = logging.getLogger(__name__)


@dataclass
class _Request:
    rows: Rows
    queries: torch.Tensor  # model dtype [layers, count, heads, head size]
    filled: int = 0  # rows that are there: fewer than count where an EOS ended the request
    captured: int = 0  # row captures, repeats after a preemption included
    computed: int = 0  # tokens whose keys stand in its blocks; a preemption gives all of them back

    def complete(self, state: Any) -> bool:
        """Whether it may be scored: it ran to its end, and its blocks are still its own."""
        ended = self.filled == self.rows.count or (self.filled > 0 and _stopped(state))
        # The last row's own key is the last that scoring reads.
        return ended and self.computed >= self.rows.first + self.filled


@dataclass(frozen=True)
class _Copy:
    """One step's copy: batch rows ``start … stop`` become rows ``row …`` of a request."""

    start: int
    stop: int
    row: int
    request: _Request


class Capture:
    """Query rows of live requests and the scores of finished ones."""

    def __init__(self, layers: Sequence[Any]) -> None:
        self._layers = layers
        self._requests: dict[str, _Request] = {}
        self._copies: list[_Copy] = []
        self._results: dict[str, dict[str, Any]] = {}
        self._windowed: dict[str, WindowedPrompt] = {}
        self._layout: KeyLayout | None = None
        self._counts = {"scored": 0, "dropped": 0, "preempted": 0}
        for number, layer in enumerate(layers):
            self._wrap(number, layer.impl)

    def _wrap(self, number: int, impl: Any) -> None:
        forward = impl.forward

        def forward_and_copy(layer: Any, query: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            for copy in self._copies:
                rows = query[copy.start : copy.stop]
                copy.request.queries[number, copy.row : copy.row + len(rows)] = rows
            return forward(layer, query, *args, **kwargs)

        impl.forward = forward_and_copy

    def learn(
        self, request: str, extra_args: Mapping[str, Any] | None, tokens: int, limit: int
    ) -> None:
        """Take up a new request of ``tokens`` prompt tokens, if it wants to be scored.

        What admission would have refused is left alone and logged: an error here would end the
        engine for everybody.
        """
        import torch

        from harness.methods.specprefill.vllm.scoring import check_window

        try:
            rows = decode_rows(extra_args, tokens, limit)
            if rows is not None and rows.window is not None:
                check_window(rows)
        except ConfigError as fault:
            _log.error("request %s is not scored: %s", request, fault)
            return
        if rows is None:
            return
        first = self._layers[0]
        shape = (len(self._layers), rows.count, first.num_heads, first.head_size)
        queries = torch.zeros(shape, dtype=first.dtype, device=first.kv_cache.device)
        self._requests[request] = _Request(rows, queries)

    def plan(
        self, order: Sequence[str], computed: Sequence[int], scheduled: Mapping[str, int]
    ) -> None:
        """Note which tokens of the coming step are query rows."""
        self._copies = []
        start = 0
        for name, done in zip(order, computed, strict=False):
            count = scheduled[name]
            request = self._requests.get(name)
            if request is not None:
                # Tokens found in the prefix cache count: their keys stand in shared blocks.
                request.computed = int(done) + count
                begin = max(int(done), request.rows.first)
                end = min(int(done) + count, request.rows.first + request.rows.count)
                if begin < end:
                    at = start + begin - int(done)
                    row = begin - request.rows.first
                    self._copies.append(_Copy(at, at + end - begin, row, request))
                    request.captured += end - begin
                    request.filled = max(request.filled, end - request.rows.first)
            start += count

    def preempt(self, names: Iterable[str]) -> None:
        """Note that vLLM has taken these requests' blocks, for others to use from this step on.

        The rows stay: where the request is resumed, its prefix may come from the cache, and rows
        there are not computed again.
        """
        for name in names:
            if name in self._requests:
                self._requests[name].computed = 0
                self._counts["preempted"] += 1

    def finish(self, names: Iterable[str], states: Mapping[str, Any], cache_config: Any) -> None:
        """Score requests that have ended while their blocks still hold their keys.

        One that was aborted, while it ran or after a preemption, is forgotten unscored.

        Parameters
        ----------
        states
            vLLM's ``CachedRequestState`` of each live request.
        cache_config
            vLLM's ``KVCacheConfig``.
        """
        for name in names:
            request = self._requests.pop(name, None)
            if request is None:
                continue  # not ours, or scored when the engine asked for it
            state = states.get(name)
            if state is None or not request.complete(state):
                self._counts["dropped"] += 1
                continue
            self._results[name] = self._score(request, state.block_ids, cache_config)
            self._counts["scored"] += 1

    def layout(self, cache_config: Any) -> KeyLayout:
        """How keys lie in the cache, found once.

        Raises
        ------
        EngineRefusedError
            They cannot be read back.
        """
        from harness.methods.specprefill.vllm.keycache import probe

        if self._layout is None:
            layer = self._layers[0]
            spec = cache_config.kv_cache_groups[_group_of(layer, cache_config)].kv_cache_spec
            self._layout = probe(layer, cache_config.num_blocks, spec.block_size)
        return self._layout

    def _score(
        self, request: _Request, block_ids: Sequence[Sequence[int]], cache_config: Any
    ) -> dict[str, Any]:
        from harness.methods.specprefill.vllm.scoring import Captured, score_whole

        began = time.perf_counter()
        blocks = [block_ids[_group_of(layer, cache_config)] for layer in self._layers]
        queries = request.queries[:, : request.filled]
        captured = Captured(self._layers, self.layout(cache_config), queries, blocks)
        rows, config = request.rows, request.rows.config()
        result: dict[str, Any] = {"captured": request.captured}
        if rows.window is None:
            result["rows"] = _bytes(score_whole(captured, rows.keys, config))
        else:
            prompt = self._windowed_prompt(rows.window, config)
            prompt.add(rows.window.number, captured)
        return result | {"seconds": time.perf_counter() - began}

    def _windowed_prompt(self, part: WindowPart, config: ScoringConfig) -> WindowedPrompt:
        from harness.methods.specprefill.vllm.scoring import WindowedPrompt

        if part.prompt not in self._windowed:
            self._windowed[part.prompt] = WindowedPrompt(part, config)
        return self._windowed[part.prompt]

    def merge(self, prompt: str) -> bytes:
        """Rows of a prompt whose windows are all in: float32 [N, M], as bytes."""
        return _bytes(self._windowed.pop(prompt).rows())

    def drop(self, prompt: str) -> None:
        """Forget the windows of a prompt that was given up."""
        self._windowed.pop(prompt, None)

    def discard(self, names: Iterable[str]) -> None:
        """Forget requests that were given up, ended or not, and scores that nobody will take."""
        for name in names:
            found = self._requests.pop(name, None), self._results.pop(name, None)
            self._counts["dropped"] += found[0] is not None

    def census(self) -> dict[str, int]:
        """What became of requests so far, and how many things are ``held`` for them now.

        ``held`` counts requests, scores and windowed prompts: 0 when nothing is on its way.
        """
        held = len(self._requests) + len(self._results) + len(self._windowed)
        return {**self._counts, "held": held}

    def take(self, names: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Hand out finished scores and let go of them."""
        return {name: self._results.pop(name) for name in names if name in self._results}


class CaptureMixin:
    """Runner mixin: place it before vLLM's V1 ``GPUModelRunner`` (or its CPU subclass)."""

    _capture: Capture | None = None

    @property
    def specprefill_capture(self) -> Capture:
        """The capture, made once the model's layers stand."""
        if self._capture is None:
            context = self.compilation_config.static_forward_context  # type: ignore[attr-defined]
            self._capture = Capture(scored_layers(context, most_tokens(self)))
        return self._capture

    def _update_states(self, scheduler_output: Any) -> Any:
        capture = self.specprefill_capture
        # A request preempted and then aborted is named in both: its blocks went first.
        capture.preempt(scheduler_output.preempted_req_ids or ())
        # Before vLLM lets go of finished requests and zeroes or re-uses their blocks.
        self.specprefill_finish(scheduler_output.finished_req_ids)
        limit: int = self.max_model_len  # type: ignore[attr-defined]
        for new in scheduler_output.scheduled_new_reqs:
            if new.sampling_params is not None:
                tokens = len(new.prompt_token_ids or ())
                capture.learn(new.req_id, new.sampling_params.extra_args, tokens, limit)
        return super()._update_states(scheduler_output)  # type: ignore[misc]

    def specprefill_finish(self, names: Iterable[str]) -> None:
        """Score the requests ``names`` now."""
        self.specprefill_capture.finish(
            names,
            self.requests,  # type: ignore[attr-defined]
            self.kv_cache_config,  # type: ignore[attr-defined]
        )

    def _preprocess(self, scheduler_output: Any, *args: Any, **kwargs: Any) -> Any:
        batch = self.input_batch  # type: ignore[attr-defined]
        self.specprefill_capture.plan(
            batch.req_ids, batch.num_computed_tokens_cpu, scheduler_output.num_scheduled_tokens
        )
        return super()._preprocess(scheduler_output, *args, **kwargs)  # type: ignore[misc]


def _stopped(state: Any) -> bool:
    """Whether a request's last token ended it, by vLLM's own rule (``check_stop``)."""
    params, tokens = state.sampling_params, state.output_token_ids
    # vLLM leaves eos_token_id out where ignore_eos is set.
    return bool(tokens) and tokens[-1] in (params.eos_token_id, *(params.stop_token_ids or ()))


def _bytes(rows: torch.Tensor) -> bytes:
    data: bytes = rows.cpu().numpy().tobytes()
    return data


def _group_of(layer: Any, cache_config: Any) -> int:
    """Number of the KV cache group, and so of the block table, that a layer uses."""
    name = layer.kv_sharing_target_layer_name or layer.layer_name
    for number, group in enumerate(cache_config.kv_cache_groups):
        if name in group.layer_names:
            return number
    raise KeyError(name)


def scored_layers(static_forward_context: Mapping[str, Any], tokens: int) -> list[Any]:
    """Full-attention decoder layers, in the model's order (ALGORITHM.md, Scoring 4).

    Parameters
    ----------
    tokens
        What a request may have in the cache: a window as long sees everything.
    """
    layers = attention_layers(static_forward_context)
    return [layer for layer in layers if is_full(layer, tokens)]


class CaptureResults:
    """Worker mixin: what the scorer asks its workers for, by name, over ``collective_rpc``."""

    def specprefill_refusal(self) -> str | None:
        """Why the loaded model cannot be a speculator; None where it can.

        From its layers, and from a probe of its key cache.
        """
        runner = self.model_runner  # type: ignore[attr-defined]
        found = refusal_of(runner, "speculator")
        if found is not None:
            return found
        try:
            runner.specprefill_capture.layout(runner.kv_cache_config)
        except EngineRefusedError as error:
            return str(error)
        return None

    def specprefill_take_scores(self, names: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Scores of finished requests; scores those now that no later step has ended."""
        runner = self.model_runner  # type: ignore[attr-defined]
        runner.specprefill_finish(names)
        taken: dict[str, dict[str, Any]] = runner.specprefill_capture.take(names)
        return taken

    def specprefill_discard(self, names: Sequence[str]) -> None:
        """Give back all that is kept of requests that were given up."""
        self.model_runner.specprefill_capture.discard(names)  # type: ignore[attr-defined]

    def specprefill_census(self) -> dict[str, int]:
        """Return :meth:`Capture.census` of this worker's runner."""
        census: dict[str, int] = self.model_runner.specprefill_capture.census()  # type: ignore[attr-defined]
        return census

    def specprefill_merge(self, prompt: str) -> bytes:
        """Return :meth:`Capture.merge` of this worker's runner."""
        merged: bytes = self.model_runner.specprefill_capture.merge(prompt)  # type: ignore[attr-defined]
        return merged

    def specprefill_drop(self, prompt: str) -> None:
        """Forget a windowed prompt."""
        self.model_runner.specprefill_capture.drop(prompt)  # type: ignore[attr-defined]
