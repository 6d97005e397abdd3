"""The target's worker with a switch that drops the position edit: what the tests must notice."""

from __future__ import annotations

from typing import Any

from harness.specprefill.vllm.workers_cpu import TargetCPURunner, TargetCPUWorker


class SwitchableTargetRunner(TargetCPURunner):
    dropping = False

    def _edit_positions(self, *args: Any) -> None:
        if not self.dropping:
            super()._edit_positions(*args)


class SwitchableTargetWorker(TargetCPUWorker):
    runner_class = SwitchableTargetRunner

    def drop_position_edit(self, dropping: bool) -> None:
        self.model_runner.dropping = dropping
