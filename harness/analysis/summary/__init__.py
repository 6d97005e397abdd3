"""What a run says: one row an arm, with intervals; made from the store alone.

:func:`summarize` reads a store and makes the one :class:`harness.schema.rows.RunSummary` that the
terminal, the reports and ``--json`` print.
"""

from harness.analysis.summary.build import summarize

__all__ = ["summarize"]
