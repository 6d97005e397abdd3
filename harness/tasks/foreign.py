"""lm-eval's own tasks by name, found by the text of its files: its index takes seconds."""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

NAME = re.compile(rb"""^(task|group):[ \t]*["']?([\w.+\-]+)["']?[ \t]*\r?$""", re.MULTILINE)
TAG = re.compile(
    rb"""^tag:[ \t]*(?:["']?([\w.+\-]+)["']?[ \t]*\r?$|\r?\n((?:[ \t]*-[^\n]*\n?)+))""",
    re.MULTILINE,
)


def _root() -> Path:
    spec = find_spec("lm_eval")  # finds the package without importing it
    if spec is None or not spec.submodule_search_locations:
        return Path("lm_eval-is-not-installed")
    return Path(next(iter(spec.submodule_search_locations))) / "tasks"


@cache
def _index() -> tuple[dict[str, Path], frozenset[str]]:
    """Task names with their files, and the names of groups and tags."""
    tasks: dict[str, Path] = {}
    many: set[str] = set()
    for path in sorted(_root().glob("**/*.yaml")):
        text = path.read_bytes()
        for kind, name in NAME.findall(text):
            if kind == b"task":
                tasks.setdefault(name.decode(), path)
            else:
                many.add(name.decode())
        for one, several in TAG.findall(text):
            listed = re.findall(rb"-[ \t]*[\"']?([\w.+\-]+)", several)
            many.update(tag.decode() for tag in ([one] if one else listed))
    return tasks, frozenset(many)


def names() -> list[str]:
    """Every task and group name of the installed lm-eval."""
    tasks, many = _index()
    return [*tasks, *many]


def find(name: str) -> list[Path]:
    """Return the YAML files that a name of lm-eval's stands for; empty where it has none."""
    tasks, many = _index()
    if name in tasks:
        return [tasks[name]]
    return _members(name) if name in many else []


def _members(name: str) -> list[Path]:
    """Expand a group or tag through lm-eval's own index."""
    from lm_eval.tasks import TaskManager

    index = TaskManager().task_index
    todo, found, seen = [name], [], set()
    while todo:
        entry = index.get(todo.pop(0))
        if entry is None or entry.name in seen:
            continue
        seen.add(entry.name)
        if entry.kind.name in {"TASK", "PY_TASK"} and entry.yaml_path is not None:
            found.append(Path(entry.yaml_path))
        elif entry.kind.name == "TAG":
            todo += sorted(entry.tags)
        else:
            members = (entry.cfg or {}).get("task", [])
            todo += [m if isinstance(m, str) else m.get("task", m.get("group")) for m in members]
    return found
