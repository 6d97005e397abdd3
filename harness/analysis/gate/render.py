"""The gate's report as plain text and as Markdown."""

from __future__ import annotations

from harness.analysis.gate.report import GateReport
from harness.analysis.gate.verdicts import Judgement, Verdict
from harness.analysis.text_table import text_table

TITLES = {
    Verdict.PASS: "pass",
    Verdict.IMPROVED: "improved",
    Verdict.REGRESSION: "REGRESSION",
    Verdict.INCONCLUSIVE: "inconclusive",
    Verdict.NOT_COMPARABLE: "NOT COMPARABLE",
    Verdict.FLOOR: "floor",
    Verdict.NEW: "new",
    Verdict.NOT_MEASURED: "not measured",
}

_HEADERS = ("what", "task", "arm", "n", "change [95 %]", "margin", "verdict", "why")


def change_text(judgement: Judgement) -> str:
    """Change with its interval: points of score, or per cent of TTFT over full prefill."""
    if judgement.change is None:
        return "–"
    style = "+.1%" if judgement.kind == "ttft" else "+.3f"
    text = format(judgement.change, style)
    if judgement.low is not None and judgement.high is not None:
        text += f" [{judgement.low:{style}}, {judgement.high:{style}}]"
    return _minus(text)


def _minus(text: str) -> str:
    """Write the minus sign that is as wide as the plus sign."""
    return text.replace("-", "−")


def place(judgement: Judgement) -> str:
    """Task with its length."""
    return judgement.task if judgement.length is None else f"{judgement.task}@{judgement.length}"


def headline(report: GateReport) -> str:
    """One sentence: the verdict and how many comparisons stand behind it."""
    counts: dict[Verdict, int] = {}
    for judgement in report.judgements:
        counts[judgement.verdict] = counts.get(judgement.verdict, 0) + 1
    listed = ", ".join(f"{n} {TITLES[v].lower()}" for v, n in counts.items())
    verdict = TITLES[report.verdict]
    return f"gate: {verdict} ({listed or 'nothing to compare'}; exit {report.exit_code})"


def _cells(judgement: Judgement) -> tuple[str, ...]:
    percent = judgement.kind == "ttft"
    margin = "–" if judgement.margin is None else format(judgement.margin, ".0%" if percent else "")
    return (
        "TTFT" if percent else "quality",
        place(judgement),
        judgement.arm,
        str(judgement.n) if judgement.n else "–",
        change_text(judgement),
        margin,
        TITLES[judgement.verdict],
        judgement.detail,
    )


def as_text(report: GateReport) -> str:
    """Return aligned plain text; the last line is the headline."""
    lines = text_table(_HEADERS, [*map(_cells, report.judgements)])
    return "\n".join([*lines, *_remarks(report), headline(report)])


def as_markdown(report: GateReport) -> str:
    """Return Markdown for a pull request or a step summary."""
    rows = [_HEADERS, tuple("---" for _ in _HEADERS), *map(_cells, report.judgements)]
    table = "\n".join("| " + " | ".join(map(_escaped, row)) + " |" for row in rows)
    remarks = "\n".join(f"- {_escaped(line)}" for line in _remarks(report))
    title = f"### {headline(report)}"
    against = f"Run `{report.run}` against baseline `{report.baseline}`."
    return "\n\n".join(part for part in (title, against, table, remarks) if part) + "\n"


def _remarks(report: GateReport) -> list[str]:
    macro = ", ".join(f"{arm} {_minus(f'{m:+.3f}')}" for arm, m in report.macro.items())
    lines = [f"mean change over tasks (shown, never decides): {macro}"] if macro else []
    return lines + list(report.notes)


def _escaped(text: str) -> str:
    """Escape what Markdown or HTML would read as its own."""
    for char in "\\|`*_[]":
        text = text.replace(char, f"\\{char}")
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("\n", " ")
