"""What a task's YAML says of it, read without importing lm-eval or the task's functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import ConfigError
from harness.schema import yaml_files
from harness.schema.outside import BUILT_IN
from harness.tasks.data.library import installed
from harness.tasks.sampling import max_tokens_of

FOREIGN = "lm-eval"
"""Group of tasks that name none: lm-eval's own, and a user's YAML."""


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
    end_token
        A text whose last token ends an answer as the model's own end token does, and neither is
        drawn first (LongBench's samsum); empty where the model's own is the only one.
    origin
        Where it comes from: ``built in``, lm-eval, an installed package, or a file.
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
    end_token: str = ""
    origin: str = BUILT_IN

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
            "from": self.origin,
        }


class _Loader(yaml_files.UniqueKeys):
    """Reads ``!function`` tags as plain strings: nothing of a task is imported."""


FUNCTION = "!function "
"""How the name of a function begins in a YAML that was read here."""

_Loader.add_constructor("!function", lambda loader, node: f"{FUNCTION}{node.value}")


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a task's YAML with its includes, the including file's keys winning."""
    return {key: value for _, raw in yaml_chain(path) for key, value in raw.items()}


def yaml_chain(path: Path, within: tuple[Path, ...] = ()) -> list[tuple[Path, dict[str, Any]]]:
    """Return a task's YAML after the files that it includes, each as it stands.

    Raises
    ------
    ConfigError
        A file cannot be read, has a key twice, is no mapping, or includes itself.
    """
    if path.resolve() in within:
        raise ConfigError(f"{path}: the file includes itself")
    raw = yaml_files.read_yaml(path, _Loader)
    if not isinstance(raw, dict):
        raise ConfigError(f"{path}: a task's YAML is a mapping, not {type(raw).__name__}")
    includes = raw.pop("include", [])
    included = [
        one
        for name in (includes if isinstance(includes, list) else [includes])
        for one in yaml_chain(path.parent / str(name), (*within, path.resolve()))
    ]
    return [*included, (path, raw)]


def is_task(raw: Mapping[str, Any]) -> bool:
    """Whether a parsed YAML defines one task, and lets it be listed."""
    return isinstance(raw.get("task"), str) and bool(metadata_of(raw).get("listed", True))


def metadata_of(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a YAML's ``metadata``, empty where it has none."""
    found = raw.get("metadata")
    return found if isinstance(found, Mapping) else {}


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
    return of_yaml(raw, path, f"file {path}")


def of_yaml(raw: Mapping[str, Any], path: Path, origin: str) -> TaskInfo:
    """Make a :class:`TaskInfo` of a parsed YAML, ours or another's."""
    metadata = metadata_of(raw)
    needs = tuple(metadata.get("needs", ()))
    output_type = str(raw.get("output_type", "generate_until"))
    kwargs = raw.get("generation_kwargs") or {}
    generates = output_type == "generate_until"
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
        max_tokens=max_tokens_of(kwargs) if generates else 0,
        sized=bool(metadata.get("sized", False)),
        chat=bool(metadata.get("chat", generates)),
        truncate=bool(metadata.get("truncate", False)),
        version=str(metadata.get("version", "0")),
        end_token=str(metadata.get("end_token", "")),
        origin=origin,
    )


def _metric(entry: Any) -> str:
    return str(entry["metric"]) if isinstance(entry, dict) else str(entry)
