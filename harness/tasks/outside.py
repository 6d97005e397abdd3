"""Tasks of others: folders given by their path, and folders that installed packages offer.

An entry point of the group :data:`GROUP` names a package whose folder holds the tasks, or a
function (or a path) that gives their folder. Its tasks are asked for by their names, their groups
or the entry point's name. They never take a name of ours: what ``ruler`` means does not depend on
what is installed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.errors import ConfigError
from harness.schema.outside import Broken, Offer, guarded, load, offers
from harness.tasks.info import TaskInfo, is_task, of_yaml, read_yaml

GROUP = "harness.tasks"
"""Entry point group: name → ``package`` or ``package.module:function``."""


def folder_tasks(folder: Path) -> list[TaskInfo]:
    """Tasks of a folder and of the folders in it, by file.

    A YAML whose name begins with ``_`` is shared by others, and no task.

    Raises
    ------
    ConfigError
        There is none, or one of the files cannot be read.
    """
    files = [p for p in (*folder.glob("*.yaml"), *folder.glob("*/*.yaml")) if p.name[0] != "_"]
    parsed = [(read_yaml(path), path) for path in sorted(files)]
    tasks = [of_yaml(raw, path, f"file {path}") for raw, path in parsed if is_task(raw)]
    if not tasks:
        raise ConfigError(f"{folder}: no task in this folder: no YAML with 'task: NAME'")
    return tasks


def offered_tasks(
    taken: Collection[str],
) -> tuple[list[tuple[Offer, list[TaskInfo]]], list[Broken]]:
    """Tasks of each offer of an installed package, and the offers that cannot be used.

    ``taken`` are the names of our own tasks and groups, which no offer may use.
    """
    good, broken = [], []
    for offer in offers(GROUP):
        try:
            good.append((offer, _tasks_of(offer, taken)))
        except ConfigError as error:
            broken.append(Broken(offer.name, offer.origin, str(error)))
    return good, broken


def find_offered(name: str, taken: Collection[str]) -> list[TaskInfo]:
    """Return the tasks that a name of an installed package stands for; empty where it has none.

    Raises
    ------
    ConfigError
        The name is that of an offer that cannot be used.
    """
    good, broken = offered_tasks(taken)
    for offer, tasks in good:
        if offer.name == name:
            return tasks
    for fault in broken:
        if fault.name == name:
            raise ConfigError(fault.reason)
    every = [task for _, tasks in good for task in tasks]
    return [task for task in every if name in {task.name, task.group}]


def offered_names(taken: Collection[str]) -> list[str]:
    """Every name that :func:`find_offered` knows."""
    good, _ = offered_tasks(taken)
    found = (n for offer, tasks in good for t in tasks for n in (offer.name, t.group, t.name))
    return list(dict.fromkeys(found))


def _tasks_of(offer: Offer, taken: Collection[str]) -> list[TaskInfo]:
    folder = _folder_of(offer)
    try:
        tasks = folder_tasks(folder)
    except ConfigError as error:
        raise ConfigError(f"{offer}: {error}") from error
    for name in (offer.name, *(n for task in tasks for n in (task.name, task.group))):
        if name in taken:
            raise ConfigError(f"{offer}: {name!r} is a built-in task or group; choose another name")
    return [replace(task, origin=offer.origin) for task in tasks]


def _folder_of(offer: Offer) -> Path:
    """The folder behind an entry point: a package's own, or what a function or name gives."""
    found: Any = load(offer.reference, str(offer))
    if isinstance(found, ModuleType):
        if found.__file__ is None:
            raise ConfigError(f"{offer}: {found.__name__} has no __init__.py, so no one folder")
        return Path(found.__file__).parent
    if callable(found):
        found = guarded(str(offer), f"calling {offer.reference}", found)
    if not isinstance(found, (str, Path)) or not Path(found).is_dir():
        raise ConfigError(f"{offer}: gives {found!r}, which is no folder")
    return Path(found)
