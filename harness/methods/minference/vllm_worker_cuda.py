"""MInference's worker on a GPU, and the attention backend that it registers.

*Untested* until it has run on a GPU; tests/contract checks the signatures that it relies on.
"""

from __future__ import annotations

from vllm.v1.attention.backends.flash_attn import FlashAttentionBackend, FlashAttentionImpl
from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

from harness.engines.vllm.workers_cuda import TargetCUDARunner, TargetCUDAWorker
from harness.methods.minference.vllm_step import AttentionMixin, RunnerMixin, TakeMixin


class MInferenceCUDARunner(RunnerMixin, TargetCUDARunner):
    """V1 runner that knows the prompts."""


class SparseFlashAttention(AttentionMixin, FlashAttentionImpl):  # type: ignore[misc]
    """vLLM's FlashAttention, but for the prompts."""


class SparseFlashBackend(FlashAttentionBackend):  # type: ignore[misc]
    """vLLM's FlashAttention backend with our attention."""

    @staticmethod
    def get_impl_cls() -> type[SparseFlashAttention]:
        """Return our attention."""
        return SparseFlashAttention


register_backend(AttentionBackendEnum.FLASH_ATTN, f"{__name__}.SparseFlashBackend")


class MInferenceCUDAWorker(TakeMixin, TargetCUDAWorker):
    """``worker_cls`` of a target with this path on CUDA."""

    runner_class = MInferenceCUDARunner
