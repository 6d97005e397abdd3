"""``harness data import``: files that the user has, in the publishers' formats."""

from __future__ import annotations

from pathlib import Path

from harness.errors import DataError
from harness.tasks.data.archives import gunzip, unzip
from harness.tasks.data.formats import Parsed, read
from harness.tasks.data.library import Installed, install
from harness.tasks.data.manifest import licence_of
from harness.tasks.data.strict import Source

MAX_FILE = 4 * 1024**3


def import_path(path: Path) -> list[Installed]:
    """Check a file, a zip archive or a folder, and install what it holds.

    A folder holds data files (LongBench's unpacked archive), or ``.txt`` essays.

    Everything is checked before anything is installed.

    Raises
    ------
    DataError
        One line with file and line number.
    """
    parsed = [(source, read(source)) for source in _sources(path)]
    names = [one.set_name for _, one in parsed]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{path}: two of its files are {twice}")
    return [install_parsed(source, one, origin=path.name) for source, one in parsed]


def install_parsed(source: Source, parsed: Parsed, *, origin: str) -> Installed:
    """Install one checked file as it is."""
    suffix = ".txt" if source.name.endswith(".txt") else ".json"
    suffix = ".jsonl" if source.name.endswith((".jsonl", ".jsonl.gz")) else suffix
    return install(
        parsed.set_name,
        {f"{parsed.set_name}{suffix}": source.data},
        format=parsed.format,
        rows=parsed.count,
        source=origin,
        licence=licence_of(parsed.set_name),
    )


def _sources(path: Path) -> list[Source]:
    """The checked-in bytes behind a path: one file, an archive's members, a folder's essays."""
    if path.is_dir():
        files = sorted(p for p in path.iterdir() if p.suffix in {".json", ".jsonl"})
        return [_load(file) for file in files] or [_folder(path)]
    source = _load(path)
    if path.suffix == ".zip" or source.data.startswith(b"PK\x03\x04"):
        return list(unzip(source))
    if path.suffix == ".gz" or source.data.startswith(b"\x1f\x8b"):
        return [gunzip(source)]
    return [source]


def _folder(path: Path) -> Source:
    """A folder of plain-text essays becomes one haystack, files in the order of their names."""
    files = sorted(p for p in path.glob("*.txt") if p.is_file())
    if not files:
        raise DataError(f"{path}: the folder holds no .json, .jsonl or .txt files")
    texts = [_load(file).text().strip() for file in files]
    return Source(f"{path.name}.txt", "\n\n".join(texts).encode())


def _load(path: Path) -> Source:
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise DataError(f"{path}: not a file")
        if size > MAX_FILE:
            raise DataError(f"{path}: {size} bytes; more than {MAX_FILE} are refused")
        return Source(str(path), path.read_bytes())
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from error
