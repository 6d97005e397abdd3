"""Where an engine's own processes write, and what they say when they fail.

They inherit standard output and error, and what vLLM prints there would break a progress display
or a ``--json`` object. So both go to a file while the engine starts, from which a failure's cause
is read.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from typing import Self

_CAUSE = re.compile(r"\b(?P<kind>[A-Z]\w*(?:Error|Exception|Interrupt)): (?P<text>.+)$")
# What vLLM raises on top of the cause.
_OUTER = ("initialization failed", "EngineDeadError", "See root cause", "cancelled")


class ChildLog:
    """A nameless file for the output of processes started inside :meth:`capture`."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  (closed by close)

    @contextlib.contextmanager
    def capture(self) -> Iterator[Self]:
        """Send standard output and error to the file, for this process and those it starts."""
        sys.stdout.flush()
        sys.stderr.flush()
        saved = [os.dup(fd) for fd in (1, 2)]
        try:
            for fd in (1, 2):
                os.dup2(self._file.fileno(), fd)
            yield self
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for fd, original in zip((1, 2), saved, strict=True):
                os.dup2(original, fd)
                os.close(original)

    def text(self) -> str:
        """Everything written so far; empty once closed."""
        if self._file.closed:
            return ""
        handle = self._file.fileno()
        return os.pread(handle, os.fstat(handle).st_size, 0).decode(errors="replace")

    def cause(self) -> str | None:
        """The last exception in the file that is not vLLM's report of another; None without."""
        return find_cause(self.text())

    def close(self) -> None:
        """Let go of the file, which ends with its last writer. Idempotent."""
        self._file.close()


def find_cause(text: str) -> str | None:
    r"""The last line that names an exception, without vLLM's own on top of it.

    >>> find_cause("x\nValueError: too long\nRuntimeError: Engine core initialization failed.")
    'ValueError: too long'
    """
    for line in reversed(text.splitlines()):
        found = _CAUSE.search(line)
        if found is not None and not any(outer in line for outer in _OUTER):
            return f"{found['kind']}: {found['text'].strip()}"
    return None
