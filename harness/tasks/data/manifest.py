"""Which data sets there are, where they come from, and under which licence."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from harness.errors import DataError

HUB = "https://huggingface.co"


@dataclass(frozen=True, slots=True)
class DataSet:
    """One data set of the manifest (``datasets.json``).

    Attributes
    ----------
    url
        What ``harness data pull`` fetches; ``{hub}`` stands for the model hub's address. None
        where the publisher offers no plain file: import it.
    revision
        Commit, tag or version that ``url`` names.
    sha256, git_blob, size
        Of the fetched file: its sha256, or the id that git gives its content. None where the
        publisher states none; then the hub's own digest is checked while pulling. What was
        received is always recorded, for ``harness data verify``.
    archive
        Name of the archive whose members are sets; one pull installs them all.
    """

    name: str
    title: str
    licence: str
    homepage: str
    url: str | None
    revision: str | None = None
    sha256: str | None = None
    git_blob: str | None = None
    size: int | None = None
    archive: str | None = None


@cache
def manifest() -> dict[str, DataSet]:
    """Every known set by name."""
    import json
    from importlib.resources import files

    raw = json.loads((files("harness.tasks.data") / "datasets.json").read_text(encoding="utf-8"))
    archives: dict[str, dict[str, Any]] = raw["archives"]
    sets: dict[str, DataSet] = {}
    for archive, shared in archives.items():
        members = shared.pop("sets")
        for name in members:
            sets[name] = DataSet(name=name, archive=archive, **shared)
    sets |= {name: DataSet(name=name, **entry) for name, entry in raw["sets"].items()}
    return sets


def address(one: DataSet) -> str | None:
    """Where a set is fetched from; ``HF_ENDPOINT`` names another hub, as everywhere."""
    hub = os.environ.get("HF_ENDPOINT", HUB).rstrip("/")
    return None if one.url is None else one.url.replace("{hub}", hub)


def licence_of(name: str) -> str:
    """Licence of a known set; ``as stated by its source`` for others."""
    known = manifest().get(name)
    return known.licence if known else "as stated by its source"


def absent(task: str, names: Sequence[str]) -> DataError:
    """Return the error for a task whose data are not on this machine."""
    listed = " ".join(names)
    return DataError(
        f"{task} needs data that are not here ({', '.join(names)}): "
        f"harness data pull {listed}, or harness data import FILE for a file you have"
    )


def not_cached(task: str) -> DataError:
    """Return the error for a task of lm-eval's whose data are not in the hub's local cache."""
    return DataError(
        f"{task} needs data from the hub that are not in the local cache, and nothing is "
        f"downloaded in a run: harness data pull {task}"
    )
