"""What a run says: one row an arm, with intervals; made from the store alone.

:func:`summarize` reads a store; :meth:`RunSummary.to_json` is what ``harness run --json`` and
``harness report --format json`` print and what every report page draws from.
"""

from harness.analysis.summary.build import summarize
from harness.analysis.summary.rows import ArmRow, RunSummary

__all__ = ["ArmRow", "RunSummary", "summarize"]
