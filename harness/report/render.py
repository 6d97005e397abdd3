"""Renders runs in one format and puts the result where it belongs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from pkgutil import resolve_name

from harness.errors import ConfigError, nearest
from harness.report.source import open_report

FORMATS = {
    "md": "harness.report.markdown:render_markdown",
    "html": "harness.report.html:render_html",
    "json": "harness.report.tables:render_json",
    "csv": "harness.report.tables:render_csv",
}
"""Format → function of a :class:`harness.report.source.Report`, imported on use."""

COMPARISONS = ("paper",)
INTERVALS = ("jackknife", "bca")
BCA_SEED = 0
"""Seed of the bootstrap: the same store gives the same bytes."""


def render(
    names: Sequence[str],
    format_: str,
    comparison: str | None = None,
    interval: str = "jackknife",
) -> str:
    """Return the report of some runs as text.

    Raises
    ------
    ConfigError
        Unknown format, comparison or kind of interval.
    StoreError
        A run is missing, damaged or empty.
    """
    if format_ not in FORMATS:
        raise ConfigError(f"--format {format_!r} is unknown{nearest(format_, FORMATS)}")
    if comparison is not None and comparison not in COMPARISONS:
        raise ConfigError(f"--compare {comparison!r} is unknown{nearest(comparison, COMPARISONS)}")
    if interval not in INTERVALS:
        raise ConfigError(f"--interval {interval!r} is unknown{nearest(interval, INTERVALS)}")
    with open_report(names, comparison, BCA_SEED if interval == "bca" else None) as report:
        text: str = resolve_name(FORMATS[format_])(report)
    return text


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all; what stood there before is replaced only when done.

    Raises
    ------
    ConfigError
        The place cannot be written to.
    """
    try:
        if path.is_dir():
            raise IsADirectoryError(21, "it is a folder: name a file", str(path))
        handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
            Path(draft).chmod(0o666 & ~_umask())
            Path(draft).replace(path)
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
