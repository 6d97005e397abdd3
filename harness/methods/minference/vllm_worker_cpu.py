"""MInference's worker on a CPU, and the attention backend that it registers."""

from __future__ import annotations

# vLLM's CPU worker sets up shared memory when it is imported, so ours comes before the rest.
from harness.engines.vllm.workers_cpu import TargetCPURunner, TargetCPUWorker  # isort: skip
from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend, CPUAttentionBackendImpl
from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

from harness.methods.minference.vllm_step import AttentionMixin, RunnerMixin, TakeMixin


class MInferenceCPURunner(RunnerMixin, TargetCPURunner):
    """CPU runner that knows the prompts."""


class SparseCPUAttention(AttentionMixin, CPUAttentionBackendImpl):  # type: ignore[misc]
    """vLLM's CPU attention, but for the prompts."""


class SparseCPUBackend(CPUAttentionBackend):  # type: ignore[misc]
    """vLLM's CPU backend with our attention."""

    @staticmethod
    def get_impl_cls() -> type[SparseCPUAttention]:
        """Return our attention."""
        return SparseCPUAttention


register_backend(AttentionBackendEnum.CPU_ATTN, f"{__name__}.SparseCPUBackend")


class MInferenceCPUWorker(TakeMixin, TargetCPUWorker):
    """``worker_cls`` of a target with this path on CPU."""

    runner_class = MInferenceCPURunner
