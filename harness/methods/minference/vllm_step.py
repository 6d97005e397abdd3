"""MInference in vLLM, the workers' side on any device: which prompts a step holds, and attention.

vLLM's attention backend is replaced through vLLM's own registry, in the worker's process only
(:mod:`.vllm_worker_cpu`, :mod:`.vllm_worker_cuda`). A prompt that carries MInference's knobs is
prefilled by the sparse kernel on the step's dense q, k and v; all else (decode steps, full
prefill) runs through vLLM's own kernel. Keys and values go to the cache before attention, by
vLLM, whichever kernel follows.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from vllm.model_executor.models.utils import extract_layer_index

from harness.methods.minference.attend import Computed, attend, refuse_parts
from harness.methods.minference.in_vllm import KEY
from harness.methods.minference.published import read_patterns

_REMEMBERED = 4096  # finished requests whose shares nobody has asked for yet


@dataclass
class _Job:
    """One request's knobs, and what its layers computed."""

    knobs: Mapping[str, Any]
    computed: Computed = field(default_factory=Computed)

    @property
    def length(self) -> int:
        """Tokens of the prompt; what follows in the same step attends densely."""
        return int(self.knobs["length"])


class _Span(NamedTuple):
    """Rows ``start`` … ``stop`` of a step hold all of a prompt, from its first token."""

    start: int
    stop: int
    job: _Job


@dataclass
class _Step:
    """What the running step holds; set by the runner, read by every layer's attention."""

    spans: list[_Span] = field(default_factory=list)
    has_others: bool = True

    def describe(
        self, jobs: Sequence[_Job | None], computed: Sequence[int], scheduled: Sequence[int]
    ) -> None:
        """Take the requests of a step in their order; refuse a prompt that comes in parts."""
        self.spans, self.has_others = [], False
        start = 0
        for job, done, count in zip(jobs, computed, scheduled, strict=False):
            if job is None or done >= job.length:
                self.has_others = True
            elif done or count < job.length:
                raise RuntimeError("MInference needs the whole prompt in one step")
            else:
                self.spans.append(_Span(start, start + count, job))
            start += count


_step = _Step()


class _Jobs:
    """Jobs of live requests, and of finished ones until their shares are taken."""

    def __init__(self) -> None:
        self._live: dict[str, _Job] = {}
        self._finished: OrderedDict[str, _Job] = OrderedDict()

    def update(self, scheduler_output: Any) -> None:
        """Learn new requests. Finished before new: an id may be used again in the same step."""
        for request in scheduler_output.finished_req_ids:
            if request in self._live:
                self._finished[request] = self._live.pop(request)
        while len(self._finished) > _REMEMBERED:
            self._finished.popitem(last=False)
        for new in scheduler_output.scheduled_new_reqs:
            extra = getattr(new.sampling_params, "extra_args", None) or {}
            if KEY in extra:
                self._live[new.req_id] = _Job(extra[KEY])

    def get(self, request: str) -> _Job | None:
        """Job of a live request, None where it carries no knobs."""
        return self._live.get(request)

    def take(self, request: str) -> _Job:
        """Job of a request whose output has come; it is let go."""
        return self._finished.pop(request, None) or self._live.pop(request)


class RunnerMixin:
    """Tells the attention which rows of each step are a prompt of ours."""

    input_batch: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.minference_jobs = _Jobs()

    def _update_states(self, scheduler_output: Any) -> Any:
        self.minference_jobs.update(scheduler_output)
        return super()._update_states(scheduler_output)  # type: ignore[misc]

    def _preprocess(self, scheduler_output: Any, *args: Any, **kwargs: Any) -> Any:
        prepared = super()._preprocess(scheduler_output, *args, **kwargs)  # type: ignore[misc]
        batch = self.input_batch
        scheduled = scheduler_output.num_scheduled_tokens
        jobs = [self.minference_jobs.get(request) for request in batch.req_ids]
        counts = [scheduled[request] for request in batch.req_ids]
        _step.describe(jobs, batch.num_computed_tokens_cpu, counts)
        return prepared


class AttentionMixin:
    """A vLLM attention, but for the prompts that the step names.

    Raises
    ------
    UnsupportedError
        The model's attention has a part that the sparse kernels do not.
    """

    scale: float

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        parts = ("logits_soft_cap", "alibi_slopes", "sinks")
        refuse_parts({name: getattr(self, name, None) for name in parts})

    def forward(  # noqa: PLR0917  (vLLM's signature)
        self,
        layer: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        attn_metadata: Any,
        output: torch.Tensor,
        *args: Any,
        **kwargs: Any,
    ) -> torch.Tensor:
        """Attend; shapes as in vLLM's: query [T, H, d], key and value [T, Hkv, d]."""
        spans = [] if attn_metadata is None else _step.spans
        if not spans or _step.has_others:
            super().forward(  # type: ignore[misc]
                layer, query, key, value, kv_cache, attn_metadata, output, *args, **kwargs
            )
        for start, stop, job in spans:
            rows = slice(start, stop)
            heads = [x[rows].transpose(0, 1) for x in (query, key, value)]
            out = self._prompt(heads, job, extract_layer_index(layer.layer_name))
            output[rows] = out.transpose(0, 1).reshape(output[rows].shape)
        return output

    def _prompt(self, qkv: Sequence[torch.Tensor], job: _Job, index: int) -> torch.Tensor:
        """Attend from a prompt sparsely, from what follows it (a continuation) densely."""
        q, k, v = qkv
        file = job.knobs["pattern_file"]
        patterns = None if file is None else read_patterns(file)[index]
        size = job.length
        prompt = q[:, :size], k[:, :size], v[:, :size]
        out = job.computed.add(index, attend(prompt, self.scale, job.knobs, patterns))
        if q.shape[1] == size:
            return out
        return torch.cat([out, _dense_tail(q[:, size:], k, v, self.scale)], 1)


def _dense_tail(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float) -> torch.Tensor:
    """Causal attention of the last rows: q [H, T, d] of k and v [Hkv, M + T, d]."""
    count, length = q.shape[1], k.shape[1]
    mask = torch.ones(count, length, dtype=torch.bool, device=q.device).tril(length - count)
    attended: torch.Tensor = torch.nn.functional.scaled_dot_product_attention(
        q[None], k[None], v[None], attn_mask=mask, scale=scale, enable_gqa=True
    )[0]
    return attended


class TakeMixin:
    """The worker's method by which the engine asks what a prompt computed."""

    model_runner: Any

    def minference_take(self, requests: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Mean share of the pairs that each request computed, in how many layers, and by what."""
        found = {}
        for request in requests:
            computed = self.model_runner.minference_jobs.take(request).computed
            found[request] = {
                "share": computed.share,
                "layers": computed.layers,
                "kernel": computed.kernel,
            }
        return found
