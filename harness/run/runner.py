"""plan → run → append. Knows no method, task or engine by name.

Arms are grouped by the engine they need. Quality runs on every example, in batches, with
speculator scores kept across keep rates; latency runs on a subset, one request at a time, with
nothing kept (DESIGN.md, rule 3). Where that happens is the executor's business.
"""

from __future__ import annotations

from harness.run.executors import Executor, make_executor
from harness.run.outcome import Outcome
from harness.run.plan import Plan
from harness.run.progress import RunProgress
from harness.run.recording import Recorder
from harness.run.store import Store
from harness.run.work import Outstanding

__all__ = ["Outcome", "execute"]

LOCK_PATIENCE_S = 600.0
"""Seconds that a finished record waits for another program's lock on the store."""


def execute(
    plan: Plan,
    store: Store,
    *,
    executor: Executor | None = None,
    fail_fast: bool = False,
    quiet: bool = False,
) -> Outcome:
    """Run whatever of ``plan`` is not in ``store`` yet, and append it.

    A cell that fails is recorded with its reason and the others go on, unless ``fail_fast``.

    Parameters
    ----------
    executor
        Where the cells run; left out, on this machine.
    """
    work = Outstanding(plan, store)
    with RunProgress(work.units, work.requests, quiet=quiet) as progress:
        store.patience_s, store.say = LOCK_PATIENCE_S, progress.say
        recorder = Recorder(plan, store, work, progress, fail_fast)
        (executor or make_executor()).run(recorder)
    recorder.settle()
    return recorder.outcome
