"""What a task *is*, as a digest: its YAML, its functions and the rules that they score by.

A changed scoring function or ``max_gen_toks`` makes other cells, so that no run ever shows a
score that another rule gave. What a task reads (data, word lists) is in the prompts, and those
have a digest of their own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.schema.source_digest import digest_of_files, with_imports
from harness.tasks.info import FUNCTION, TaskInfo, yaml_chain

if TYPE_CHECKING:
    from harness.tasks.examples import TaskExamples

SCORING = Path(__file__).parent / "scoring"
"""Rules of ours that tasks score by; everything else of ours only makes their prompts."""


def definition_of(examples: TaskExamples) -> dict[str, Any]:
    """Return a task's part of a cell's identity, JSON-ready.

    Returns
    -------
    dict
        ``task_code`` (:func:`code_digest`) and ``generation``, the settings that its examples are
        generated with.
    """
    settings = {json.dumps(asdict(e.sampling), sort_keys=True) for e in examples.examples}
    return {
        "task_code": code_digest(examples.task),
        "generation": [json.loads(text) for text in sorted(settings)],
    }


def code_digest(task: TaskInfo) -> str:
    """sha256 of a task's YAML with its includes, of its functions' files, and of lm-eval's version.

    Comments in the YAML do not count. A file counts with what it imports of its own folder or
    package and of :data:`SCORING`.

    Raises
    ------
    ConfigError
        The YAML cannot be read.
    """
    chain = yaml_chain(task.path)
    files = {file for path, raw in chain for file in _function_files(raw, path.parent)}
    settings = json.dumps([raw for _, raw in chain], sort_keys=True, default=str)
    # lm-eval computes the metrics that a task only names, and renders its templates.
    return digest_of_files(with_imports(files, [SCORING]), settings, version("lm_eval"))


def _function_files(raw: Any, folder: Path) -> Iterator[Path]:
    """Python files of the functions that a YAML names: beside it, else importable (lm-eval)."""
    if isinstance(raw, Mapping):
        for value in raw.values():
            yield from _function_files(value, folder)
    elif isinstance(raw, list):
        for value in raw:
            yield from _function_files(value, folder)
    elif isinstance(raw, str) and raw.startswith(FUNCTION):
        module = raw.removeprefix(FUNCTION).rpartition(".")[0]
        beside = folder / f"{module.replace('.', '/')}.py"
        found = beside if beside.is_file() else _importable(module)
        if found is not None:  # a function that is not there stops the task when it is loaded
            yield found


def _importable(module: str) -> Path | None:
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        return None
    return None if spec is None or spec.origin is None else Path(spec.origin)
