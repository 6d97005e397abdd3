"""An engine's process ends when the process that started it does.

vLLM's engine process outlives an owner that is killed or ends on SIGTERM, and keeps its memory
and cores. So each process of an engine that this package starts watches its parent.
"""

from __future__ import annotations

import os
from threading import Thread

VARIABLE = "SPECPREFILL_FOLLOW_PARENT"
"""Set for engines that this package starts; read in every one of their processes."""


def apply() -> None:
    """Watch this process's parent, if :data:`VARIABLE` asks for it."""
    if os.environ.get(VARIABLE):
        follow_parent()


def follow_parent() -> None:
    """End this process when its parent ends, if ``multiprocessing`` gave it one."""
    import multiprocessing
    from multiprocessing.connection import wait

    parent = multiprocessing.parent_process()
    if parent is None:
        return  # the owner itself
    sentinel = parent.sentinel

    def leave() -> None:
        wait([sentinel])  # readable once the parent has ended, however it did
        os._exit(1)

    Thread(target=leave, name="specprefill-follow-parent", daemon=True).start()
