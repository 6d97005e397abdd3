"""Prepared model folders in the user's cache: built once, atomically, checked by digest."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock

from harness.errors import ModelError
from harness.paths import cache_dir

MANIFEST = "manifest.json"
MANIFEST_FORMAT = 1

Progress = Callable[[str], None]


def models_dir() -> Path:
    """Where prepared models live."""
    return cache_dir() / "models"


def file_digest(path: Path) -> str:
    """sha256 of a file, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def ensure(
    name: str,
    recipe: Mapping[str, Any],
    build: Callable[[Path], None],
    progress: Progress | None = None,
) -> Path:
    """Return the folder ``name``, building it where it is absent, damaged or of another recipe.

    The folder appears under its name only when it is complete: it is built beside, then renamed.
    Processes that ask at the same time wait for one of them to build.

    Parameters
    ----------
    recipe
        What the folder is made from, JSON-ready; a change of it makes the folder out of date.
    build
        Fills the empty folder that it is given.
    progress
        Receives one line when a build starts.

    Raises
    ------
    ModelError
        The cache cannot be written.
    """
    folder = models_dir() / name
    if is_intact(folder, recipe):
        return folder
    try:
        models_dir().mkdir(parents=True, exist_ok=True)
        with FileLock(models_dir() / f".{name}.lock"):
            if not is_intact(folder, recipe):
                if progress is not None:
                    what = "rebuilding (damaged or out of date)" if folder.exists() else "preparing"
                    progress(f"{what} model {name} in {folder}")
                _replace(folder, recipe, build)
    except OSError as error:
        raise ModelError(
            f"cannot write the prepared model {folder}: {error}; free some space, or set "
            "XDG_CACHE_HOME to a writable folder"
        ) from error
    return folder


def is_intact(folder: Path, recipe: Mapping[str, Any] | None = None) -> bool:
    """Whether every file of the manifest is there with its digest, and the recipe is ``recipe``."""
    manifest = read_manifest(folder)
    if manifest is None or (recipe is not None and manifest["recipe"] != dict(recipe)):
        return False
    for name, facts in manifest["files"].items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != facts["size"]:
            return False
    return all(file_digest(folder / n) == facts["sha256"] for n, facts in manifest["files"].items())


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """Return the manifest of a prepared folder; None where there is none or it is unreadable."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    known = isinstance(manifest, dict) and manifest.get("format") == MANIFEST_FORMAT
    return manifest if known else None


def _replace(folder: Path, recipe: Mapping[str, Any], build: Callable[[Path], None]) -> None:
    for stale in folder.parent.glob(f".{folder.name}.build-*"):  # left by a killed process
        shutil.rmtree(stale, ignore_errors=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}.build-", dir=folder.parent))
    try:
        fresh = scratch / "fresh"
        fresh.mkdir()
        build(fresh)
        _write_manifest(fresh, recipe)
        if folder.exists():
            folder.rename(scratch / "old")
        fresh.rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _write_manifest(folder: Path, recipe: Mapping[str, Any]) -> None:
    files = {
        path.name: {"size": path.stat().st_size, "sha256": file_digest(path)}
        for path in sorted(folder.iterdir())
    }
    digest = hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()
    manifest = {
        "format": MANIFEST_FORMAT,
        "recipe": dict(recipe),
        "files": files,
        "digest": digest,
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
