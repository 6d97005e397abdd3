"""Which data sets there are and how to get them."""

from __future__ import annotations

from collections.abc import Sequence

from harness.errors import DataError


def absent(task: str, names: Sequence[str]) -> DataError:
    """Return the error for a task whose data are not on this machine."""
    listed = " ".join(names)
    return DataError(
        f"{task} needs data that are not here ({', '.join(names)}): "
        f"harness data pull {listed}, or harness data import FILE for a file you have"
    )
