"""Waiting between vLLM's processes without burning a core.

vLLM's processes pass messages through shared memory, and a reader polls it for up to a second
after its last message before it sleeps. On a CPU backend the cores it polls on are the ones the
model computes on: with two engines on few cores, the engine process that waits for its worker
and the worker of the engine that is idle slow down the one that works (docs/performance.md).
"""

from __future__ import annotations

import os
from typing import Any

VARIABLE = "SPECPREFILL_WAIT_POLLING_S"
"""Seconds of polling before a reader sleeps; set for engines on CPU, read in every process."""


def apply() -> None:
    """Shorten the polling of readers made from now on, if :data:`VARIABLE` asks for it."""
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return
    from vllm.distributed.device_communicators import shm_broadcast

    original: Any = shm_broadcast.SpinCondition
    seconds = float(wanted)
    if original.__name__ == "PatientCondition":
        return  # vLLM loads plugins more than once

    class PatientCondition(original):  # type: ignore[misc]
        """A reader that sleeps, after ``seconds`` of polling, until it is notified."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **{"busy_loop_s": seconds, **kwargs})

    shm_broadcast.SpinCondition = PatientCondition
