"""Every task by name, read from the task folders without importing lm-eval."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from harness.errors import ConfigError
from harness.paths import package_or_checkout
from harness.schema.outside import BUILT_IN, Broken
from harness.tasks.info import (
    FOREIGN,
    TaskInfo,
    from_file,
    is_task,
    metadata_of,
    of_yaml,
    read_yaml,
)
from harness.tasks.outside import find_offered, folder_tasks, offered_names, offered_tasks

GROUPS = ("ruler", "longbench", "longbench_e", "multidoc")


@cache
def _own() -> tuple[dict[str, Any], ...]:
    """Parsed task files of the checkout or package, in their order on disk."""
    root = package_or_checkout("tasks")
    files = sorted(p for p in root.glob("*/*.yaml") if not p.name.startswith("_"))
    parsed = ({**read_yaml(path), "_path": path} for path in files)
    # Sweep presets lie there too.
    return tuple(raw for raw in parsed if is_task(raw) and "group" in metadata_of(raw))


def list_tasks() -> list[TaskInfo]:
    """Every task of ours, by group and name."""
    tasks = [of_yaml(raw, raw["_path"], BUILT_IN) for raw in _own()]
    order = {name: rank for rank, name in enumerate(GROUPS)}
    return sorted(tasks, key=lambda t: (order.get(t.group, len(order)), t.name))


def all_tasks() -> tuple[list[TaskInfo], list[Broken]]:
    """Every task of ours and of installed packages, and the packages' offers that are broken."""
    own = list_tasks()
    offered, broken = offered_tasks([*(task.name for task in own), *GROUPS])
    return [*own, *(task for _, tasks in offered for task in tasks)], broken


def resolve(names: Sequence[str]) -> list[TaskInfo]:
    """Return the tasks that ``names`` stand for, each once, in the order asked.

    A name is a group or task of ours, the path of a YAML or of a folder of them, or a task or
    group of an installed package or of lm-eval. Ours come first: nothing else is even imported
    for them. Tasks of a group whose data are absent are in the list with ``ready`` False: the
    caller leaves them out and says so. A task asked for by name should be refused instead
    (:func:`require_data`).

    Raises
    ------
    ConfigError
        Unknown name, with near ones, or two tasks of one name.
    """
    own = list_tasks()
    by_name = {task.name: task for task in own}
    found: dict[str, TaskInfo] = {}
    for name in names:
        if name in by_name:
            tasks = [by_name[name]]
        elif name in GROUPS:
            tasks = [task for task in own if task.group == name]
        elif name.endswith((".yaml", ".yml")):
            tasks = [from_file(Path(name))]
        else:
            tasks = _foreign(name, [*by_name, *GROUPS])
        for task in tasks:
            same = found.setdefault(task.name, task)
            if same.path.resolve() != task.path.resolve():
                raise ConfigError(f"two tasks are called {task.name!r}: {same.path}, {task.path}")
    return list(found.values())


def require_data(task: TaskInfo) -> None:
    """Raise one clear line where the task's data are absent.

    Raises
    ------
    DataError
        With the commands that bring the data.
    """
    from harness.tasks.data.manifest import absent

    missing = task.missing
    if missing:
        raise absent(task.name, missing)


def _foreign(name: str, known: Sequence[str]) -> list[TaskInfo]:
    from harness.tasks.foreign import find, names

    folder = Path(name)
    if len(folder.parts) > 1 or name.startswith("."):
        if not folder.is_dir():
            raise ConfigError(f"task folder {folder} does not exist")
        return folder_tasks(folder)
    lm_eval = [of_yaml(read_yaml(path), path, FOREIGN) for path in find(name)]
    tasks = find_offered(name, known) or lm_eval
    if tasks or folder.is_dir():
        return tasks or folder_tasks(folder)
    every = [*known, *offered_names(known), *names()]
    near = difflib.get_close_matches(name, every, n=3, cutoff=0.6)
    hint = f"; did you mean {', '.join(near)}?" if near else "; harness tasks lists them"
    raise ConfigError(f"unknown task {name!r}{hint}")
