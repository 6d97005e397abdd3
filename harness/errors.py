"""Errors that a user can cause: one line each, with the exit code that belongs to it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from enum import IntEnum


class ExitCode(IntEnum):
    """Process exit codes (DESIGN.md, rule 9)."""

    PASS = 0
    REGRESSION = 1
    USAGE = 2
    INCONCLUSIVE = 3
    NOT_COMPARABLE = 4
    INTERRUPTED = 130


class HarnessError(Exception):
    """A fault the user can mend: what was wrong, where, what to do.

    Parameters
    ----------
    message
        One line without a trailing full stop's worth of traceback: it is printed as it stands.
    code
        Process exit code; 2 (usage, configuration, data) unless said otherwise.
    """

    def __init__(self, message: str, code: ExitCode = ExitCode.USAGE) -> None:
        super().__init__(" ".join(message.split()))
        self.code = code


class ConfigError(HarnessError):
    """An option, a configuration file or a value in one is wrong."""


class DataError(HarnessError):
    """A data file is absent, damaged or not in a known format."""


class ModelError(HarnessError):
    """A model folder or name cannot be used."""


class UnsupportedError(HarnessError):
    """A method cannot run on this model, machine or task; its cell is ``unsupported``, not failed.

    Nothing is wrong with what was asked, and nothing falls back to something else.
    """


class EngineRefusedError(UnsupportedError):
    """The engine refuses a model before it starts (ALGORITHM.md, Prefill)."""


class EngineDiedError(HarnessError):
    """A running engine has lost its processes: nothing more can be asked of it."""


class StoreError(HarnessError):
    """A results store is missing, foreign, damaged, or cannot be read or written just now."""


class DamagedStoreError(StoreError):
    """SQLite finds a store's file broken, or it is no results store."""


class StoreBusyError(StoreError):
    """Another program holds a store's lock."""


class NotComparableError(HarnessError):
    """Two sets of records cannot be compared (exit code 4)."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ExitCode.NOT_COMPARABLE)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the closest known name, else the list of names.

    >>> nearest("keeps", ["keep", "task"])
    "; did you mean 'keep'?"
    """
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f"; did you mean '{close[0]}'?"
    return f"; known: {', '.join(names)}" if names else ""
