"""Progress with an ETA on standard error: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

LINE_EVERY_S = 15.0


class RunProgress:
    """Counts work in weighted units (a full prefill weighs more than a sparse one).

    The ETA is elapsed time × units left / units done, over the units done in this session.
    """

    def __init__(self, total: float, requests: int, *, quiet: bool = False) -> None:
        self.total = max(total, 1e-9)
        self.requests = requests
        self.quiet = quiet
        self._done = 0.0
        self._count = 0
        self._start = time.monotonic()
        self._last_line = self._start
        self._what = ""
        self._crew = ""
        self._first: float | None = None
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        console = Console(stderr=True)
        # In a notebook rich draws the bar in the cell that runs, where its widgets are installed.
        in_notebook = console.is_jupyter and find_spec("ipywidgets") is not None
        if (console.is_terminal or in_notebook) and not self.quiet:
            self._bar = Progress(
                TextColumn("{task.fields[what]}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[eta]}"),
                TimeElapsedColumn(),
                console=console,
            )
            self._bar.add_task("", total=self.requests, what="", eta="")
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, what: str) -> None:
        """Name what is going on now; a line of its own where there is no bar."""
        self.doing(what)
        if self._bar is None and not self.quiet:
            _tell(what)

    def doing(self, what: str) -> None:
        """Name what is going on now, for the next line or the bar."""
        self._what = what
        self._show()

    def crew(self, at_work: int, workers: int, queued: int) -> None:
        """Say how many workers are at work, of how many, and how many pieces wait for one."""
        rate = self.rate()
        pace = "" if rate is None else f", {rate:.3g} examples/s"
        self._crew = f"{at_work} of {workers} workers, {queued} pieces queued{pace}"
        self._show()

    def advance(self, units: float, requests: int = 1) -> None:
        """Count finished work."""
        self._first = time.monotonic() if self._first is None else self._first
        self._done += units
        self._count += requests
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self._count, eta=f"ETA {self.eta()}")
        elif not self.quiet and time.monotonic() - self._last_line > LINE_EVERY_S:
            self._last_line = time.monotonic()
            what = ", ".join(filter(None, (self._crew, self._what)))
            _tell(f"{self._count} of {self.requests}, {what}, ETA {self.eta()}")

    def rate(self) -> float | None:
        """Requests a second since the first was finished; None before there is a time between."""
        if self._first is None or self._count < 2:
            return None
        passed = time.monotonic() - self._first
        return self._count / passed if passed > 0 else None

    def eta(self) -> str:
        """Return minutes and seconds left, or ``?`` before anything is done."""
        if not self._done:
            return "?"
        left = (self.total - self._done) * (time.monotonic() - self._start) / self._done
        minutes, seconds = divmod(max(0, round(left)), 60)
        return f"{minutes}:{seconds:02d}"

    def _show(self) -> None:
        if self._bar is not None:
            what = " · ".join(filter(None, (self._crew, self._what)))
            self._bar.update(self._bar.task_ids[0], what=what)


def _tell(line: str) -> None:
    """Print a line on standard error; that nobody can read it ends no run."""
    with suppress(OSError, ValueError):  # a full disk or a reader that is gone; a closed stream
        print(f"harness: {line}", file=sys.stderr, flush=True)
