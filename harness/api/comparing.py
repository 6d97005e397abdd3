"""``harness.compare``: two runs, arm by arm, on the examples that they share."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

from harness.api.result import Run, load

if TYPE_CHECKING:
    import pandas as pd


def compare(a: Run | str | PathLike[str], b: Run | str | PathLike[str]) -> pd.DataFrame:
    """Scores of two runs on shared examples, as ``harness runs diff`` prints them.

    Parameters
    ----------
    a, b
        Runs, or their paths or names; examples are paired by the digest of their content.

    Returns
    -------
    pandas.DataFrame
        ``task, length, seed, arm, n, first, second, delta``: mean scores in [0, 1] over the n
        shared examples, and second − first. ``attrs["config"]`` holds the options that differ,
        as ``{option: (first, second)}``.

    Raises
    ------
    NotComparableError
        The runs share no example of an arm.
    """
    import pandas as pd

    from harness.run.runs import diff_runs

    first, second = (x if isinstance(x, Run) else load(x) for x in (a, b))
    facts = diff_runs(first.path, second.path)
    columns = ["task", "length", "seed", "arm", "n", "first", "second", "delta"]
    frame = pd.DataFrame(facts["cells"], columns=columns)
    frame = frame.astype({"length": "Int64", "seed": "Int64", "n": "Int64"})
    frame.attrs["config"] = facts["config"]
    return frame
