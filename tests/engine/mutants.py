"""The target's worker with a switch that drops the position edit, and a count of preemptions."""

from __future__ import annotations

from typing import Any

from harness.engines.vllm.workers_cpu import TargetCPURunner, TargetCPUWorker


class SwitchableTargetRunner(TargetCPURunner):
    dropping = False
    resumed = 0

    def _update_states(self, scheduler_output: Any) -> Any:
        self.resumed += len(scheduler_output.scheduled_cached_reqs.resumed_req_ids)
        return super()._update_states(scheduler_output)

    def _edit_positions(self, *args: Any) -> None:
        if not self.dropping:
            super()._edit_positions(*args)


class SwitchableTargetWorker(TargetCPUWorker):
    runner_class = SwitchableTargetRunner

    def drop_position_edit(self, dropping: bool) -> None:
        self.model_runner.dropping = dropping

    def resumed_requests(self) -> int:
        return self.model_runner.resumed
