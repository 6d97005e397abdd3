"""The data sets that this machine has: one folder each, its files beside their digests."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.errors import DataError
from harness.paths import data_dir

META = "meta.json"


@dataclass(frozen=True, slots=True)
class InstalledFile:
    """One file of a set: ``name`` inside its folder, ``size`` in bytes, ``sha256``."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Installed:
    """One installed set.

    Attributes
    ----------
    format
        Key of :data:`harness.tasks.data.readers.READERS`.
    rows
        Rows, questions or documents in it.
    source
        Where it came from: a publisher's address with its revision, or a file's name.
    """

    name: str
    format: str
    rows: int
    source: str
    licence: str
    files: tuple[InstalledFile, ...]

    @property
    def folder(self) -> Path:
        """Where it lies."""
        return sets_dir() / self.name

    @property
    def digest(self) -> str:
        """sha256 over the files' digests; part of a cell's identity."""
        return hashlib.sha256("".join(f.sha256 for f in self.files).encode()).hexdigest()


def sets_dir() -> Path:
    """Folder that holds the sets."""
    return data_dir() / "sets"


def installed(name: str) -> Installed | None:
    """Return what is installed under ``name``, or None.

    Raises
    ------
    DataError
        Where the set's own notes are damaged.
    """
    path = sets_dir() / name / META
    if not path.is_file():
        return None
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        files = tuple(InstalledFile(**f) for f in raw.pop("files"))
        return Installed(files=files, **raw)
    except (ValueError, TypeError, KeyError) as error:
        raise DataError(f"{path}: damaged ({error}); import or pull {name} again") from error


def all_installed() -> list[Installed]:
    """Every installed set, by name."""
    if not sets_dir().is_dir():
        return []
    found = (installed(p.name) for p in sorted(sets_dir().iterdir()) if not p.name.startswith("."))
    return [one for one in found if one is not None]


def install(
    name: str,
    files: Mapping[str, bytes],
    *,
    format: str,  # noqa: A002 — the word for it
    rows: int,
    source: str,
    licence: str,
) -> Installed:
    """Write a set in one step: it is there whole, or not at all."""
    entry = Installed(
        name=name,
        format=format,
        rows=rows,
        source=source,
        licence=licence,
        files=tuple(
            InstalledFile(n, len(data), hashlib.sha256(data).hexdigest())
            for n, data in files.items()
        ),
    )
    sets_dir().mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=".new-", dir=sets_dir()))
    try:
        for file_name, data in files.items():
            (staging / file_name).write_bytes(data)
        (staging / META).write_text(json.dumps(asdict(entry), indent=2), encoding="utf-8")
        _swap(staging, entry.folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return entry


def _swap(staging: Path, folder: Path) -> None:
    """Put ``staging`` in the place of ``folder``."""
    if folder.exists():
        old = Path(tempfile.mkdtemp(prefix=".old-", dir=folder.parent))
        folder.replace(old / folder.name)
        staging.replace(folder)
        shutil.rmtree(old, ignore_errors=True)
    else:
        staging.replace(folder)


def verify(names: Iterable[Installed]) -> list[str]:
    """Return one line for each file that is missing or changed; empty where all is well."""
    faults: list[str] = []
    for one in names:
        for file in one.files:
            path = one.folder / file.name
            if not path.is_file():
                faults.append(f"{one.name}: {file.name} is missing")
            elif hashlib.sha256(path.read_bytes()).hexdigest() != file.sha256:
                faults.append(f"{one.name}: {file.name} has changed since it was installed")
    return faults


def as_json(one: Installed) -> dict[str, Any]:
    """JSON-ready form for ``harness data list --json``."""
    return {**asdict(one), "digest": one.digest}
