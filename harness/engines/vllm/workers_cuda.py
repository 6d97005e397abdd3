"""The CUDA worker of the target, by the name that ``worker_cls`` takes.

The same mixins as on CPU, on vLLM's V1 runner (``VLLM_USE_V2_MODEL_RUNNER=0``). Untested until
they have run on a GPU; tests/contract checks the signatures they rely on.
"""

from __future__ import annotations

from typing import Any

from vllm.v1.worker.gpu_model_runner import GPUModelRunner
from vllm.v1.worker.gpu_worker import Worker

from harness.engines.vllm.contract import refuse_v2
from harness.engines.vllm.positions import PositionCounters, PositionsMixin


class TargetCUDARunner(PositionsMixin, GPUModelRunner):  # type: ignore[misc]
    """V1 runner with original positions."""


class OwnRunnerCUDAWorker(Worker):  # type: ignore[misc]
    """Worker whose runner's class is ours."""

    runner_class: type[Any]

    def _make_model_runner(self) -> Any:
        refuse_v2(self.use_v2_model_runner)
        return self.runner_class(self.vllm_config, self.device)


class TargetCUDAWorker(PositionCounters, OwnRunnerCUDAWorker):
    """``worker_cls`` of the target on CUDA."""

    runner_class = TargetCUDARunner
