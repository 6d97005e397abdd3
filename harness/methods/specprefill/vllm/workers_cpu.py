"""The CPU worker of the speculator, by the name that ``worker_cls`` takes."""

from __future__ import annotations

# vLLM's CPU worker sets up shared memory when it is imported, so ours comes before the rest.
from harness.engines.vllm.workers_cpu import OwnRunnerCPUWorker  # isort: skip
from vllm.v1.worker.cpu_model_runner import CPUModelRunner

from harness.methods.specprefill.vllm.capture import CaptureMixin, CaptureResults


class SpeculatorCPURunner(CaptureMixin, CPUModelRunner):  # type: ignore[misc]
    """CPU runner that keeps query rows."""


class SpeculatorCPUWorker(CaptureResults, OwnRunnerCPUWorker):
    """``worker_cls`` of the speculator on CPU."""

    runner_class = SpeculatorCPURunner
