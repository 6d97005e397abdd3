"""Rows of installed data sets, for the task folders."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from harness.tasks.data.library import Installed, installed
from harness.tasks.data.manifest import absent
from harness.tasks.data.strict import Source


def read_set(name: str) -> list[Any]:
    """Return the checked rows of an installed set (:mod:`harness.tasks.data.rows`).

    Raises
    ------
    DataError
        The set is not installed, or its file has been damaged since.
    """
    one = installed(name)
    if one is None:
        raise absent(name, [name])
    return _read(one)


def read_file(path: str) -> list[Any]:
    """Return the checked rows of a file in a publisher's format.

    Raises
    ------
    DataError
        The first fault, with the file's name and the line number.
    """
    from harness.tasks.data.formats import read

    return read(Source(path, Path(path).read_bytes())).rows


@lru_cache(maxsize=4)
def _read(one: Installed) -> list[Any]:
    from harness.tasks.data.formats import read

    path = one.folder / one.files[0].name
    return read(Source(str(path), path.read_bytes())).rows
