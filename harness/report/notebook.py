"""A run in a notebook: the finding in a sentence and the headline rows, as one piece of HTML."""

from __future__ import annotations

from harness.report import formats
from harness.report.finding import find
from harness.report.source import open_report

_HEADERS = ("task", "arm", "n", "keep", "score", "Δ to full", "TTFT", "speed-up")


def as_html(name: str) -> str:
    """Return HTML to be shown in a notebook's output; every text is escaped.

    Raises
    ------
    StoreError
        The run is missing, damaged or without a finished example.
    """
    import pandas as pd
    from markupsafe import escape

    with open_report([name]) as report:
        found = find(report)
        lines = [
            (
                formats.task_label(row),
                formats.arm_label(row),
                row.n,
                formats.keep(row),
                f"{formats.score(row.score)} {formats.interval(row.score)}",
                f"{formats.delta(row.delta)} {formats.interval(row.delta, with_sign=True)}",
                formats.seconds(row.ttft_s.median),
                f"{formats.ratio(row.ttft_speedup)} {formats.interval(row.ttft_speedup, digits=2)}",
            )
            for row in report.headline_rows
        ]
        said = [formats.visible(text) for text in (found.quality, found.latency or "") if text]
    table = pd.DataFrame(lines, columns=list(_HEADERS)).to_html(index=False, escape=True, border=0)
    sentences = "".join(f"<p>{escape(text)}</p>" for text in said)
    return f"<div>{sentences}{table}</div>"
