"""The CUDA worker of the speculator, by the name that ``worker_cls`` takes.

The same mixins as on CPU, on vLLM's V1 runner. Untested until they have run on a GPU;
tests/contract checks the signatures they rely on.
"""

from __future__ import annotations

from vllm.v1.worker.gpu_model_runner import GPUModelRunner

from harness.engines.vllm.workers_cuda import OwnRunnerCUDAWorker
from harness.methods.specprefill.vllm.capture import CaptureMixin, CaptureResults


class SpeculatorCUDARunner(CaptureMixin, GPUModelRunner):  # type: ignore[misc]
    """V1 runner that keeps query rows."""


class SpeculatorCUDAWorker(CaptureResults, OwnRunnerCUDAWorker):
    """``worker_cls`` of the speculator on CUDA."""

    runner_class = SpeculatorCUDARunner
