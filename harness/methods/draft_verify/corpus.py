"""Text to fit the maps on: the documentation strings of Python's standard library.

It is on every machine that runs this, it is long enough (over a hundred thousand tokens), no
evaluation data set contains it, and its digest goes into every result.
"""

from __future__ import annotations

import ast
import hashlib
import sysconfig
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from harness.errors import ConfigError, DataError
from harness.models.tokenizer import Tokenizer

FIT_TOKENS, HELD_OUT_TOKENS = 8192, 2048
SEQUENCE = 512
"""Tokens that a model sees at once; the maps are of states without their positions."""


def calibration_sequences(
    tokenizer: Tokenizer, path: str | None = None
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]], str]:
    """Return token sequences to fit on, others to judge the fit by, and the text's digest.

    Raises
    ------
    DataError
        The file cannot be read.
    ConfigError
        The text has too few tokens.
    """
    text = _prose() if path is None else _read(path)
    wanted = FIT_TOKENS + HELD_OUT_TOKENS
    ids: list[int] = []
    for paragraph in text.split("\n\n"):
        ids += tokenizer.encode(paragraph + "\n\n")
        if len(ids) >= wanted:
            break
    if len(ids) < wanted:
        raise ConfigError(
            f"calibration needs {wanted} tokens, {path or 'the built-in text'} has {len(ids)}"
        )
    sequences = [tuple(ids[i : i + SEQUENCE]) for i in range(0, wanted, SEQUENCE)]
    fit = FIT_TOKENS // SEQUENCE
    digest = hashlib.sha256(repr(ids[:wanted]).encode()).hexdigest()
    return sequences[:fit], sequences[fit:], digest


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read the calibration text {path}: {error}") from error


@cache
def _prose() -> str:
    """Documentation strings of the library's top-level modules, in an order that mixes them."""
    folder = Path(sysconfig.get_path("stdlib"))
    found: list[str] = []
    for path in sorted(folder.glob("*.py")):
        found += _docstrings(path.read_text(encoding="utf-8", errors="replace"))
    found = [text for text in found if len(text) > 200]
    return "\n\n".join(sorted(found, key=lambda text: hashlib.sha256(text.encode()).digest()))


def _docstrings(source: str) -> Sequence[str]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes in other people's sources
        try:
            nodes = list(ast.walk(ast.parse(source)))
        except SyntaxError:
            return []
    texts = [ast.get_docstring(node) for node in nodes if isinstance(node, kinds)]
    return [text for text in texts if text]
