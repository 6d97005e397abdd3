"""The summary's rows as a table of typed columns: what the CSV prints and Python hands out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.report.rows import rows_of
from harness.report.tables import COLUMNS, values

if TYPE_CHECKING:
    import pandas as pd

    from harness.analysis.summary import RunSummary

_WHOLE = ("length", "seed", "look_ahead", "n", "ttft_requests")
_TEXT = ("run", "level", "group", "category", "task", "arm", "method", "budget_kind", "status")
_TRUTH = ("floor",)
_LAST = ("remarks", "interval", "kernel")


def frame(summary: RunSummary) -> pd.DataFrame:
    """Return one line a row, one column a figure; missing is NA, never 0.

    Scores lie in [0, 1]; names of columns end in their unit.
    """
    import pandas as pd

    lines = [
        [*values(row, summary.run), "jackknife", row.kernel] for row in rows_of(summary.to_json())
    ]
    table = pd.DataFrame(lines, columns=list(COLUMNS))
    kinds = dict.fromkeys(COLUMNS, "Float64")
    kinds |= dict.fromkeys(_WHOLE, "Int64") | dict.fromkeys((*_TEXT, *_LAST), "string")
    return table.astype(kinds | dict.fromkeys(_TRUTH, "bool"))
