"""Where things live: the user's cache and data, the package's resources, a run's folder."""

from __future__ import annotations

import os
from pathlib import Path

APP = "specprefill-harness"


def _xdg(variable: str, fallback: str) -> Path:
    raw = os.environ.get(variable)
    base = Path(raw) if raw else Path.home() / fallback
    return base / APP


def cache_dir() -> Path:
    """Prepared models and other things that can be made again."""
    return _xdg("XDG_CACHE_HOME", ".cache")


def data_dir() -> Path:
    """Data sets that were pulled or imported."""
    return _xdg("XDG_DATA_HOME", ".local/share")


def runs_dir() -> Path:
    """Where runs are written unless ``--out`` says otherwise: under the working directory."""
    return Path("results") / "runs"


def package_or_checkout(name: str) -> Path:
    """Return the folder ``name`` (``tasks``, ``baselines``, ``reports/templates``).

    An installed wheel carries the folder inside the package; a checkout uses its own.
    """
    package = Path(__file__).resolve().parent
    inside = package / "_resources" / name
    return inside if inside.is_dir() else package.parent / name
