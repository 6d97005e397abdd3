"""MInference in vLLM, the workers' side: a runner that knows the prompts, a backend that attends.

vLLM's CPU attention backend is replaced through vLLM's own registry, in the worker's process
only. A prompt that carries MInference's knobs is prefilled by the sparse kernel on the step's
dense q, k and v; all else (decode steps, full prefill) runs through vLLM's own kernel. Keys and
values go to the cache before attention, by vLLM, whichever kernel follows.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

# vLLM's CPU worker sets up shared memory when it is imported, so ours comes before the rest.
from harness.specprefill.vllm.workers_cpu import TargetCPURunner, TargetCPUWorker  # isort: skip
from vllm.model_executor.models.utils import extract_layer_index
from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend, CPUAttentionBackendImpl
from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

from harness.methods.minference.attend import attend
from harness.methods.minference.in_vllm import KEY
from harness.methods.minference.published import read_patterns

_REMEMBERED = 4096  # finished requests whose shares nobody has asked for yet


@dataclass
class _Job:
    """One request's knobs, and the share of pairs computed in each layer."""

    knobs: Mapping[str, Any]
    shares: dict[int, float] = field(default_factory=dict)

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


_step = _Step()


class MInferenceRunner(TargetCPURunner):
    """Tells the attention which rows of each step are a prompt of ours."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.minference_jobs: OrderedDict[str, _Job] = OrderedDict()

    def _update_states(self, scheduler_output: Any) -> Any:
        for new in scheduler_output.scheduled_new_reqs:
            extra = getattr(new.sampling_params, "extra_args", None) or {}
            if KEY in extra:
                self.minference_jobs[new.req_id] = _Job(extra[KEY])
        while len(self.minference_jobs) > _REMEMBERED:
            self.minference_jobs.popitem(last=False)
        return super()._update_states(scheduler_output)

    def _preprocess(self, scheduler_output: Any, *args: Any, **kwargs: Any) -> Any:
        prepared = super()._preprocess(scheduler_output, *args, **kwargs)
        batch = self.input_batch
        scheduled = scheduler_output.num_scheduled_tokens
        self._describe(batch.req_ids, batch.num_computed_tokens_cpu, scheduled)
        return prepared

    def _describe(
        self, order: Sequence[str], computed: Sequence[int], scheduled: Mapping[str, int]
    ) -> None:
        _step.spans, _step.has_others = [], False
        start = 0
        for request, done in zip(order, computed, strict=False):
            stop = start + scheduled[request]
            job = self.minference_jobs.get(request)
            if job is None or done >= job.length:
                _step.has_others = True
            elif done or stop - start < job.length:
                raise RuntimeError("MInference needs the whole prompt in one step")
            else:
                _step.spans.append(_Span(start, stop, job))
            start = stop


class SparseAttention(CPUAttentionBackendImpl):  # type: ignore[misc]
    """vLLM's CPU attention, but for the prompts that the step names."""

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
        if attn_metadata is None or not _step.spans:
            return super().forward(
                layer, query, key, value, kv_cache, attn_metadata, output, *args, **kwargs
            )
        if _step.has_others:
            super().forward(
                layer, query, key, value, kv_cache, attn_metadata, output, *args, **kwargs
            )
        index = extract_layer_index(layer.layer_name)
        for start, stop, job in _step.spans:
            rows = slice(start, stop)
            heads = [x[rows].transpose(0, 1) for x in (query, key, value)]
            out = self._prompt(heads, job, index)
            output[rows] = out.transpose(0, 1).reshape(output[rows].shape)
        return output

    def _prompt(self, qkv: Sequence[torch.Tensor], job: _Job, index: int) -> torch.Tensor:
        """Attend from a prompt sparsely, from what follows it (a continuation) densely."""
        q, k, v = qkv
        file = job.knobs["pattern_file"]
        published = None if file is None else read_patterns(file)[index]
        size = job.length
        out, job.shares[index] = attend(
            (q[:, :size], k[:, :size], v[:, :size]), self.scale, job.knobs, published
        )
        if q.shape[1] == size:
            return out
        return torch.cat([out, _dense_tail(q[:, size:], k, v, self.scale)], 1)


def _dense_tail(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float) -> torch.Tensor:
    """Causal attention of the last rows: q [H, T, d] of k and v [Hkv, M + T, d]."""
    count, length = q.shape[1], k.shape[1]
    mask = torch.ones(count, length, dtype=torch.bool).tril(length - count)
    attended: torch.Tensor = torch.nn.functional.scaled_dot_product_attention(
        q[None], k[None], v[None], attn_mask=mask, scale=scale, enable_gqa=True
    )[0]
    return attended


class SparseBackend(CPUAttentionBackend):  # type: ignore[misc]
    """vLLM's CPU backend with :class:`SparseAttention`."""

    @staticmethod
    def get_impl_cls() -> type[SparseAttention]:
        """Return our attention."""
        return SparseAttention


register_backend(
    AttentionBackendEnum.CPU_ATTN, "harness.methods.minference.vllm_worker.SparseBackend"
)


class MInferenceCPUWorker(TargetCPUWorker):
    """``worker_cls`` of a target with this path on CPU."""

    runner_class = MInferenceRunner

    def minference_take(self, requests: Sequence[str]) -> dict[str, dict[str, float]]:
        """Mean share of the pairs that each request computed, and in how many layers."""
        found = {}
        for request in requests:
            shares = list(self.model_runner.minference_jobs.pop(request).shares.values())
            found[request] = {"share": sum(shares) / len(shares), "layers": len(shares)}
        return found
