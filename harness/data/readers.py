"""Readers of installed data sets."""

from __future__ import annotations

from pathlib import Path


def read_essays(path: Path) -> str:
    """Return the essays' text."""
    return path.read_text(encoding="utf-8")
