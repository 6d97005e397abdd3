"""What the command line says about data sets."""

from __future__ import annotations

from typing import Any

from harness.errors import DataError
from harness.tasks.data.formats import TITLES
from harness.tasks.data.library import Installed, all_installed, installed, verify
from harness.tasks.data.manifest import DataSet, address, manifest


def overview() -> list[dict[str, Any]]:
    """Every known or installed set as a JSON-ready row."""
    here = {one.name: one for one in all_installed()}
    rows = [_row(name, here.get(name)) for name in manifest()]
    return rows + [_row(name, one) for name, one in here.items() if name not in manifest()]


def _row(name: str, one: Installed | None) -> dict[str, Any]:
    known = manifest().get(name)
    source = one.source if one else (known.homepage if known else "")
    return {
        "name": name,
        "title": known.title if known else TITLES.get(one.format if one else "", name),
        "here": one is not None,
        "rows": one.rows if one else None,
        "licence": known.licence if known else (one.licence if one else ""),
        "source": source,
        "revision": known.revision if known else None,
        "files": [
            {"name": f.name, "size": f.size, "sha256": f.sha256} for f in (one.files if one else ())
        ],
        "pull": None if known is None else _pull(known),
    }


def _pull(known: DataSet) -> dict[str, Any]:
    """What ``harness data pull`` fetches and compares."""
    return {
        "url": address(known),
        "sha256": known.sha256,
        "git_blob": known.git_blob,
        "size": known.size,
    }


def recognised(one: Installed) -> str:
    """Return the line that says what an imported file was taken for, and what it is for."""
    from harness.tasks.catalogue import list_tasks

    tasks = [task.name for task in list_tasks() if one.name in task.needs]
    ready = f"; for {', '.join(tasks)}" if tasks else ""
    if one.format == "ruler":
        ready = f"; run it with harness run --data {one.folder / one.files[0].name}"
    return f"{one.source}: {TITLES[one.format]}, {one.rows} rows, installed as {one.name}{ready}"


def verify_sets(names: list[str]) -> str:
    """Verify installed sets; return one line that says so.

    Raises
    ------
    DataError
        A file is missing or has changed, or a named set is not installed.
    """
    chosen = all_installed() if not names else []
    for name in names:
        one = installed(name)
        if one is None:
            raise DataError(f"{name} is not installed; harness data list shows what is")
        chosen.append(one)
    faults = verify(chosen)
    if faults:
        raise DataError("; ".join(faults) + " (import or pull again)")
    files = sum(len(one.files) for one in chosen)
    return f"{len(chosen)} data sets, {files} files: all as they were installed"
