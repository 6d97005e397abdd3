"""The CPU worker of the target, by the name that ``worker_cls`` takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# vLLM's CPU worker sets up shared memory when it is imported, so it comes first.
from vllm.v1.worker import cpu_worker
from vllm.v1.worker.cpu_model_runner import CPUModelRunner

from harness.engines.vllm.contract import refuse_v2
from harness.engines.vllm.positions import PositionCounters, PositionsMixin


class TargetCPURunner(PositionsMixin, CPUModelRunner):  # type: ignore[misc]
    """CPU runner with original positions."""


class OwnRunnerCPUWorker(cpu_worker.CPUWorker):  # type: ignore[misc]
    """CPU worker whose runner's class is ours.

    ``CPUWorker.init_device`` builds its runner inline, so the name it looks up is exchanged for
    the length of that call.
    """

    runner_class: type[Any]

    def init_device(self) -> None:
        """Let vLLM make its device and runner, with our runner's class."""
        refuse_v2(self.use_v2_model_runner)
        with _exchanged(cpu_worker, "CPUModelRunner", self.runner_class):
            super().init_device()


@contextmanager
def _exchanged(module: Any, name: str, value: Any) -> Iterator[None]:
    original = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, original)


class TargetCPUWorker(PositionCounters, OwnRunnerCPUWorker):
    """``worker_cls`` of the target on CPU."""

    runner_class = TargetCPURunner
