"""The summary's rows as a table of typed columns, for Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.report.columns import COLUMNS, KINDS, line

if TYPE_CHECKING:
    import pandas as pd

    from harness.schema.rows import RunSummary


def frame(summary: RunSummary) -> pd.DataFrame:
    """Return one line a row, one column a figure; missing is NA, never 0.

    Scores lie in [0, 1]; names of columns end in their unit.
    """
    import pandas as pd

    lines = [line(row, summary.run) for row in summary.arms]
    return pd.DataFrame(lines, columns=list(COLUMNS)).astype(dict(KINDS))
