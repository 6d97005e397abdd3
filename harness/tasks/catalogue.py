"""Every task by name, read from the task folders without importing lm-eval."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from harness.errors import ConfigError
from harness.paths import package_or_checkout
from harness.tasks.data.library import installed

GROUPS = ("ruler", "longbench", "longbench_e", "multidoc")
FOREIGN = "lm-eval"
"""Group of tasks that are not ours: lm-eval's own, and a user's YAML."""


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """What is known of a task from its YAML alone.

    Attributes
    ----------
    metric
        Name of the primary metric.
    needs
        Data sets that must be pulled or imported first (``harness data list``).
    ready
        Whether all of them are here.
    path
        The task's YAML.
    output_type
        lm-eval's: ``generate_until``, ``loglikelihood``, ``multiple_choice`` …
    max_tokens
        Tokens generated after the prompt; 0 for log-likelihood tasks.
    sized
        Whether prompts are made to fit ``--length``; others are as long as their data.
    chat
        Whether the chat template is applied: a task's own ``metadata.chat``, else to generation
        and not to log-likelihoods, as is usual.
    truncate
        Whether a prompt beyond the model's range loses its middle (LongBench).
    version
        The task's version, part of a cell's identity.
    """

    name: str
    group: str
    category: str
    metric: str
    needs: tuple[str, ...]
    ready: bool
    path: Path
    output_type: str
    max_tokens: int
    sized: bool = False
    chat: bool = True
    truncate: bool = False
    version: str = "0"

    @property
    def missing(self) -> tuple[str, ...]:
        """The needed data sets that are not here."""
        return tuple(name for name in self.needs if installed(name) is None)

    def to_json(self) -> dict[str, Any]:
        """The row of ``harness tasks --json``."""
        return {
            "name": self.name,
            "group": self.group,
            "category": self.category,
            "metric": self.metric,
            "ready": self.ready,
            "needs": list(self.needs),
        }


class _Loader(yaml.SafeLoader):
    """Reads ``!function`` tags as plain strings: nothing of a task is imported."""


_Loader.add_constructor("!function", lambda loader, node: f"!function {node.value}")


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a task's YAML with its includes, the including file's keys winning."""
    try:
        raw = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: not a task that can be read: {error}") from error
    if not isinstance(raw, dict):
        raise ConfigError(f"{path}: a task's YAML is a mapping, not {type(raw).__name__}")
    includes = raw.pop("include", [])
    merged: dict[str, Any] = {}
    for name in includes if isinstance(includes, list) else [includes]:
        merged.update(read_yaml(path.parent / name))
    return {**merged, **raw}


@cache
def _own() -> tuple[dict[str, Any], ...]:
    """Parsed task files of the checkout or package, in their order on disk."""
    root = package_or_checkout("tasks")
    files = sorted(p for p in root.glob("*/*.yaml") if not p.name.startswith("_"))
    parsed = ({**read_yaml(path), "_path": path} for path in files)
    return tuple(raw for raw in parsed if _is_task(raw))


def _is_task(raw: Mapping[str, Any]) -> bool:
    """Whether a YAML under tasks/ defines a task; sweep presets lie there too."""
    metadata = raw.get("metadata") or {}
    return isinstance(raw.get("task"), str) and "group" in metadata and metadata.get("listed", True)


def from_file(path: Path) -> TaskInfo:
    """Read one task's YAML.

    Raises
    ------
    ConfigError
        It is no lm-eval task.
    """
    if not path.is_file():
        raise ConfigError(f"task file {path} does not exist")
    raw = read_yaml(path)
    if not isinstance(raw.get("task"), str):
        raise ConfigError(f"{path}: has no 'task: NAME', so it is no lm-eval task")
    return _info(raw, path)


def _info(raw: Mapping[str, Any], path: Path) -> TaskInfo:
    """Make a :class:`TaskInfo` of a parsed YAML, ours or another's."""
    metadata = raw.get("metadata") if isinstance(raw.get("metadata"), dict) else {}
    assert isinstance(metadata, dict)
    needs = tuple(metadata.get("needs", ()))
    output_type = str(raw.get("output_type", "generate_until"))
    kwargs = raw.get("generation_kwargs") or {}
    generates = output_type == "generate_until"
    max_tokens = int(kwargs.get("max_gen_toks", kwargs.get("max_new_tokens", 256)))
    metrics = raw.get("metric_list") or []
    return TaskInfo(
        name=str(raw["task"]),
        group=str(metadata.get("group", FOREIGN)),
        category=str(metadata.get("category", "other")),
        metric=_metric(metrics[0]) if metrics else ("exact_match" if generates else "acc"),
        needs=needs,
        ready=all(installed(name) is not None for name in needs),
        path=path,
        output_type=output_type,
        max_tokens=max_tokens if generates else 0,
        sized=bool(metadata.get("sized", False)),
        chat=bool(metadata.get("chat", generates)),
        truncate=bool(metadata.get("truncate", False)),
        version=str(metadata.get("version", "0")),
    )


def _metric(entry: Any) -> str:
    return str(entry["metric"]) if isinstance(entry, dict) else str(entry)


def list_tasks() -> list[TaskInfo]:
    """Every task of ours, by group and name."""
    tasks = [_info(raw, raw["_path"]) for raw in _own()]
    order = {name: rank for rank, name in enumerate(GROUPS)}
    return sorted(tasks, key=lambda t: (order.get(t.group, len(order)), t.name))


def resolve(names: Sequence[str]) -> list[TaskInfo]:
    """Return the tasks that ``names`` stand for, each once, in the order asked.

    A name is a group of ours, a task of ours, a task or group of lm-eval's, or a path to a YAML.
    Tasks of a group whose data are absent are in the list with ``ready`` False: the caller
    leaves them out and says so. A task asked for by name should be refused instead
    (:func:`require_data`).

    Raises
    ------
    ConfigError
        Unknown name, with near ones.
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
        found.update({task.name: task for task in tasks})
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


def _foreign(name: str, known: Iterable[str]) -> list[TaskInfo]:
    from harness.tasks.foreign import find, names

    paths = find(name)
    if paths:
        return [_info(read_yaml(path), path) for path in paths]
    near = difflib.get_close_matches(name, [*known, *names()], n=3, cutoff=0.6)
    hint = f"; did you mean {', '.join(near)}?" if near else "; harness tasks lists them"
    raise ConfigError(f"unknown task {name!r}{hint}")
