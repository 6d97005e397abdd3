"""Whose processes are there."""

from __future__ import annotations

import psutil


def children() -> set[int]:
    """Processes below this one, without Python's own resource tracker."""
    found = set()
    for child in psutil.Process().children(recursive=True):
        try:
            if "resource_tracker" not in " ".join(child.cmdline()):
                found.add(child.pid)
        except psutil.Error:  # it has ended, or is a zombie that nobody has waited for yet
            continue
    return found
