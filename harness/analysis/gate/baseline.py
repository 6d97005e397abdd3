"""The baseline file: per-example scores of a run, versioned, committed, readable in a diff."""

from __future__ import annotations

import json
import math
import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from harness.errors import DataError

FORMAT: Final = "specprefill-harness-gate-baseline"
VERSION: Final = 1

UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""Version → function that turns a file of that version into the next one."""


_Finite = Annotated[float, Field(allow_inf_nan=False)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Example(_Model):
    """One example's score; ``score`` may be missing or NaN in a damaged file, and is judged so.

    ``content`` (digest of prompt and references) pairs it with the run; ``output`` is the digest
    of what was generated.
    """

    id: str
    content: str
    cluster: str
    score: float | None
    output: str | None


class Timing(_Model):
    """Latency blocks of one arm at one length.

    ``values`` are the blocks' r = log TTFT of the arm over full prefill (for full prefill itself:
    mean log seconds), ``prompts`` the digests of what they timed, in the same order. ``invalid``
    says why they cannot be used.
    """

    values: tuple[_Finite, ...]
    prompts: tuple[str, ...]
    invalid: str | None = None

    @model_validator(mode="after")
    def _one_value_a_prompt(self) -> Timing:
        if len(self.values) != len(self.prompts) or len(set(self.prompts)) != len(self.prompts):
            raise ValueError("values and prompts must correspond, each prompt once")
        return self


class Cell(_Model):
    """One arm on one task and length, all data seeds together.

    ``stopped`` says why the run did not finish the cell; a baseline never holds such cells.
    """

    task: str
    group: str
    category: str
    metric: str
    length: int | None
    arm: str
    method: str
    reference: bool
    keep: float | None
    look_ahead: int | None
    options: Mapping[str, Any]
    engine: str
    dtype: str
    target: str
    speculator: str | None
    examples: tuple[Example, ...]
    ttft: Mapping[str, Timing] = Field(default_factory=dict)
    margin: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] | None = None
    margin_source: str | None = None
    stopped: str | None = Field(default=None, exclude=True)

    @property
    def key(self) -> tuple[str, int | None, str]:
        """What the gate matches cells by: an overridden option keeps the arm's name."""
        return self.task, self.length, self.arm

    @property
    def label(self) -> str:
        """Task with its length, for messages."""
        return self.task if self.length is None else f"{self.task}@{self.length}"


class Baseline(_Model):
    """Cells of one run with where they come from; also what a run is turned into for the gate."""

    format: Literal["specprefill-harness-gate-baseline"] = FORMAT
    version: Literal[1] = VERSION
    run: str
    commits: tuple[str, ...]
    machine_class: str
    models: Mapping[str, Any]
    sessions: tuple[str, ...]
    cells: tuple[Cell, ...]

    @property
    def by_key(self) -> dict[tuple[str, int | None, str], Cell]:
        """Cells by task, length and arm."""
        return {cell.key: cell for cell in self.cells}


def load_baseline(path: Path, ref: str | None = None) -> Baseline:
    """Read a baseline from the working tree, or from a git ref that the change cannot edit.

    Raises
    ------
    DataError
        The file or ref is absent, or it is no baseline of a version known here.
    """
    where = str(path) if ref is None else f"{path} at {ref}"
    text = _read(path) if ref is None else _read_from_git(path, ref)
    try:
        raw = json.loads(text)
    except ValueError as error:
        raise DataError(f"{where} is not valid JSON ({error}): restore it, or write it anew with "
                        "harness gate update") from error  # fmt: skip
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        raise DataError(f"{where} is not a gate baseline: its 'format' is not {FORMAT!r}")
    try:
        baseline = Baseline.model_validate(_upgraded(raw, where))
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        place = ".".join(map(str, fault["loc"]))
        raise DataError(f"{where} is damaged at {place}: {fault['msg']}") from error
    _check_cells(baseline, where)
    return baseline


def _upgraded(raw: dict[str, Any], where: str) -> dict[str, Any]:
    version = raw.get("version")
    while isinstance(version, int) and version in UPGRADES:
        raw = UPGRADES[version](raw)
        version = raw["version"]
    if version != VERSION:
        raise DataError(
            f"{where} has version {version!r}, this harness reads {VERSION}: write it anew with "
            "harness gate update, or use the harness that wrote it"
        )
    return raw


def _check_cells(baseline: Baseline, where: str) -> None:
    seen = set()
    for cell in baseline.cells:
        if cell.key in seen:
            raise DataError(f"{where} holds {cell.label} · {cell.arm} twice")
        seen.add(cell.key)
        for example in cell.examples:
            # NaN and infinity are judged later: not comparable, with the example's name.
            known = example.score is not None and math.isfinite(example.score)
            if known and abs(float(example.score or 0) - 0.5) > 0.5 + 1e-9:
                raise DataError(
                    f"{where}: score {example.score:g} of {example.id} is not in [0, 1]"
                )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise DataError(
            f"no baseline {path}: write one with harness gate update RUN --baseline {path}"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read baseline {path}: {error}") from error


def _read_from_git(path: Path, ref: str) -> str:
    root = _git("rev-parse", "--show-toplevel", what="find a git repository here").strip()
    try:
        inside = path.resolve().relative_to(Path(root).resolve())
    except ValueError as error:
        raise DataError(f"{path} lies outside the git repository {root}") from error
    # Resolved first: a ref that begins with a dash must not become an option.
    commit = _git("rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}",
                  what=f"find the git ref {ref!r}").strip()  # fmt: skip
    return _git("-C", root, "cat-file", "blob", f"{commit}:{inside.as_posix()}",
                what=f"find {inside} at {ref}")  # fmt: skip


def _git(*arguments: str, what: str) -> str:
    try:
        done = subprocess.run(
            ["git", *arguments], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DataError(f"cannot {what}: {error}") from error
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1:] or ["git failed"]
        raise DataError(f"cannot {what}: {reason[0]} (a shallow clone lacks older commits)")
    return done.stdout


def save_baseline(baseline: Baseline, path: Path) -> None:
    """Write a baseline in one step: the old file stands until the new one is whole.

    Raises
    ------
    DataError
        The folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(dumps(baseline))
            Path(name).chmod(0o644)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise DataError(f"cannot write baseline {path}: {error}") from error


def dumps(baseline: Baseline) -> str:
    """Return the file's text: one line an example, so that a diff shows which ones changed."""
    raw = baseline.model_dump(mode="json")
    cells = raw.pop("cells")
    head = json.dumps(raw, indent=1, ensure_ascii=False, allow_nan=False).removesuffix("\n}")
    return f'{head},\n "cells": [\n' + ",\n".join(map(_dump_cell, cells)) + "\n ]\n}\n"


def _dump_cell(cell: dict[str, Any]) -> str:
    examples = cell.pop("examples")
    timing = cell.pop("ttft")
    head = json.dumps(cell, ensure_ascii=False, allow_nan=False).removesuffix("}")
    lines = ",\n".join(
        "    " + json.dumps(example, ensure_ascii=False, allow_nan=False) for example in examples
    )
    blocks = json.dumps(timing, ensure_ascii=False, allow_nan=False)
    return f'  {head},\n   "ttft": {blocks},\n   "examples": [\n{lines}\n   ]}}'
