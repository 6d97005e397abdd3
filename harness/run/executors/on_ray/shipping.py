"""How code that only the driver has reaches the workers: scoring by value, methods as files.

A node has the harness installed. A task's functions stand in files beside its YAML, and lm-eval
loads them under names that mean nothing elsewhere; a method of the user's own may stand in any
file. Nothing else travels: no working directory, no environment.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.errors import ConfigError
from harness.methods.base import Method
from harness.run.executors.on_ray.messages import Scoring
from harness.tasks.contract import TaskScore
from harness.tasks.examples import TaskExamples
from harness.tasks.info import TaskInfo

_PACKAGE = Path(__file__).resolve().parents[3]


class Scorings:
    """Scorings of tasks, each packed once."""

    def __init__(self) -> None:
        self._packed: dict[tuple[str, str], Scoring] = {}

    def of(self, examples: TaskExamples) -> Scoring:
        """Pack a task's scoring.

        Raises
        ------
        ConfigError
            It cannot be packed: the task's own code holds something that cannot travel.
        """
        task = examples.task
        key = (task.name, str(task.path))
        if key not in self._packed:
            self._packed[key] = Scoring(_pack(examples.process, task))
        return self._packed[key]


def _pack(process: Callable[..., Any], task: TaskInfo) -> bytes:
    from ray import cloudpickle

    try:
        with _by_value(_beside(task.path)):
            bare = process.bare() if isinstance(process, TaskScore) else process
            code: bytes = cloudpickle.dumps(bare)
    except Exception as error:  # anything may stand in a task's code
        raise ConfigError(
            f"the scoring of {task.name} ({task.path.name}) cannot travel to the workers: "
            f"{type(error).__name__}: {error}; run it with --executor local"
        ) from error
    return code


@contextmanager
def _by_value(modules: Iterable[ModuleType]) -> Iterator[None]:
    """Pack what these modules define, rather than their names."""
    from ray import cloudpickle

    held = list(modules)
    for module in held:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in held:
            cloudpickle.unregister_pickle_by_value(module)


def _beside(path: Path) -> list[ModuleType]:
    """Loaded modules whose files stand beside a task's YAML, or below."""
    folder = path.resolve().parent
    if _is_installed(folder):  # lm-eval's own task: every node has it
        return []
    return [module for file, module in _loaded() if file.is_relative_to(folder)]


def local_modules(methods: Iterable[Method]) -> list[str]:
    """Files and packages that define methods and are not installed, for ``runtime_env``.

    What such a module imports from beside itself comes with it.
    """
    names = {base.__module__ for method in methods for base in type(method).__mro__}
    tops = {name.partition(".")[0] for name in names}
    files = {module.__name__: file for file, module in _loaded()}
    homes = {
        files[top].parent if files[top].name != "__init__.py" else files[top].parent.parent
        for top in tops
        if top in files and not _is_installed(files[top])
    }
    found = {
        str(file.parent if file.name == "__init__.py" else file)
        for name, file in files.items()
        if "." not in name and "/" not in name and name != "__main__"
        if (file.parent.parent if file.name == "__init__.py" else file.parent) in homes
    }
    return sorted(found)


def _loaded() -> list[tuple[Path, ModuleType]]:
    """Loaded modules that stand in files."""
    found = []
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(module, ModuleType) and file:
            found.append((Path(file).resolve(), module))
    return found


def _is_installed(path: Path) -> bool:
    """Whether a path belongs to Python, to an installed package or to the harness."""
    places = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    roots = [Path(place).resolve() for place in places]
    roots.append(_PACKAGE)
    return any(path.is_relative_to(root) for root in roots)


def slim(examples: TaskExamples, start: int, stop: int, scorings: Scorings) -> TaskExamples:
    """Return examples ``start`` … ``stop`` − 1 with a scoring that can travel."""
    return replace(examples, examples=examples.examples[start:stop], process=scorings.of(examples))


def runtime_env(methods: Iterable[Method]) -> Mapping[str, Any]:
    """What the workers' processes get beside the installed harness."""
    env: dict[str, Any] = {
        "env_vars": {
            # Read by OpenMP as torch is imported: a waiting thread must not spin.
            "OMP_WAIT_POLICY": "passive",
            # Nothing is fetched during a measurement.
            "HF_HUB_OFFLINE": "1",
        }
    }
    modules = local_modules(methods)
    return env | ({"py_modules": modules} if modules else {})
