"""The Markdown report: what a person pastes into a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from harness.analysis.summary.notes import silent_notice
from harness.report import formats, paper
from harness.report.finding import find
from harness.report.pages.categories import Section, sections
from harness.report.pages.provenance import provenance
from harness.report.pages.receipts import PROOF_WORDS, ReceiptRow, receipt_rows
from harness.report.pages.times import BAND_HEADERS, band_rows, time_caption, time_rows
from harness.report.pages.times import HEADERS as TIME_HEADERS
from harness.report.source import Report
from harness.report.verdicts import session_note, verdict_blocks
from harness.schema.estimates import Interval
from harness.schema.rows import CategoryMean, MeanWithout, Row, Without

HEADERS = ("task", "arm", "n", "keep", "score", "Δ to full", "TTFT", "speed-up", "receipts")
_PROVENANCE = ("run", "commit", "machine: class", "machine: cpu", "software: vllm", "data seeds")


def render_markdown(report: Report) -> str:
    """Return the report as GitHub-flavoured Markdown."""
    return "\n".join(_lines(report)) + "\n"


def escape(text: str) -> str:
    """Text from configurations, data and models as inert Markdown, on one line."""
    flat = " ".join(formats.visible(text).split())
    return re.sub(r"([\\`*\[\]<>|~])", r"\\\1", flat)


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Lines of a table; cells must be escaped."""
    yield f"| {' | '.join(headers)} |"
    yield f"|{'|'.join(' --- ' for _ in headers)}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _lines(report: Report) -> Iterator[str]:
    finding = find(report)
    yield f"**{escape(finding.quality)}**"
    if finding.latency:
        yield ""
        yield escape(finding.latency)
    notice = silent_notice(report.rows)
    for sentence in (*report.model_notes, *((f"{notice}.",) if notice else ()), *finding.floors):
        yield ""
        yield f"> {escape(sentence)}"
    yield ""
    marks = formats.numbered(report.rows)
    body = (line for section in sections(report) for line in _section(section, marks))
    yield from table(HEADERS, body)
    yield ""
    yield (
        "Brackets are 95 % intervals; Δ and speed-up are paired with full prefill; TTFT is the "
        f"median of single requests (batch 1). {escape(report.setting_sentence)}"
    )
    note = session_note(report.rows)
    if note is not None:
        yield ""
        yield note
    if marks:
        yield ""
        yield from (f"{number}. {escape(text)}" for text, number in marks.items())
    for title, *lines in verdict_blocks(report):
        yield ""
        yield escape(title)
        yield ""
        yield from (f"- {escape(line)}" for line in lines)
    times, bands = time_rows(report.rows), band_rows(report.rows)
    if times:
        yield ""
        yield "### Time of a request"
        yield ""
        yield escape(time_caption(report.rows))
        yield ""
        yield from table(TIME_HEADERS, ([escape(cell) for cell in row] for row in times))
    if bands:
        yield ""
        yield "Speed-up by prompt length (lengths are never pooled):"
        yield ""
        yield from table(BAND_HEADERS, ([escape(cell) for cell in row] for row in bands))
    yield from _receipts(receipt_rows(report))
    if report.comparison == "paper":
        yield from _paper(report)
    yield ""
    yield from (_provenance(entry.facts) for entry in provenance(report))


def _section(section: Section, marks: Mapping[str, int]) -> Iterator[list[str]]:
    yield [f"**{escape(section.title)}**", *[""] * (len(HEADERS) - 1)]
    for row in section.rows:
        yield _row(row, marks)
        yield from (_row_beside(row, *part) for part in formats.beside(row))
    for mean in section.means:
        yield _mean(mean)
        yield from (_mean_beside(mean, *part) for part in formats.beside(mean))


def _row(row: Row, marks: Mapping[str, int]) -> list[str]:
    numbers = " ".join(f"({number})" for number in sorted(marks[text] for text in row.remarks))
    return [
        escape(formats.task_label(row)),
        f"{escape(formats.arm_label(row))} {numbers}".rstrip(),
        str(row.n),
        formats.keep(row),
        _figure(formats.score(row.score), row.score),
        _figure(formats.delta(row.delta), row.delta, with_sign=True),
        formats.seconds(row.ttft_s.median),
        _figure(formats.ratio(row.ttft_speedup), row.ttft_speedup, digits=2),
        escape(formats.statuses(row.status)),
    ]


def _mean(mean: CategoryMean) -> list[str]:
    label, arm = f"*{formats.mean_label(mean)}*", escape(formats.mean_arm_label(mean))
    figures = [formats.number(mean.score), formats.signed(mean.delta)]
    return [label, arm, "", "", *figures, "", "", escape(formats.lacking(mean))]


def _row_beside(row: Row, label: str, part: Without) -> list[str]:
    figures = [
        _figure(formats.score(part.score), part.score),
        _figure(formats.delta(part.delta), part.delta, with_sign=True),
    ]
    arm, tasks = escape(formats.arm_label(row)), escape(", ".join(part.left_out))
    return [f"*{label}*", arm, str(part.n), "", *figures, "", "", tasks]


def _mean_beside(mean: CategoryMean, label: str, part: MeanWithout) -> list[str]:
    figures = [formats.number(part.score), formats.signed(part.delta)]
    arm, tasks = escape(formats.mean_arm_label(mean)), escape(", ".join(part.left_out))
    return [f"*{label}*", arm, "", "", *figures, "", "", tasks]


def _figure(
    text: str, estimate: Interval | None, *, with_sign: bool = False, digits: int = 3
) -> str:
    interval = formats.interval(estimate, with_sign=with_sign, digits=digits)
    return f"{text} {interval}".rstrip().replace("[", r"\[").replace("]", r"\]")


_RECEIPTS = ("arm", "receipts", "keep asked", "keep achieved", "evidence kept")


def _receipts(rows: Sequence[ReceiptRow]) -> Iterator[str]:
    """What the arms really did, and the proof of it."""
    yield ""
    yield "### Receipts"
    yield ""
    yield (
        "The last two columns are the hooks' proof: of the requests that needed it, how many show "
        "that the target's positions were written, and that the speculator's query rows were kept."
    )
    yield ""
    yield from table((*_RECEIPTS, *PROOF_WORDS.values()), map(_receipt, rows))


def _receipt(row: ReceiptRow) -> list[str]:
    reasons = [f"{count} × {reason}" for reason, count in row.reasons]
    return [
        escape(row.arm if row.run is None else f"{row.arm} [{row.run}]"),
        escape("; ".join([formats.statuses(row.status), *reasons])),
        formats.number(row.requested),
        formats.DASH if row.achieved is None else formats.number(row.achieved[1]),
        formats.number(row.evidence_kept),
        *(proof.text for _, proof in row.proofs),
    ]


def _paper(report: Report) -> Iterator[str]:
    comparison = paper.compare(report)
    yield ""
    yield "### Beside the paper"
    for sentence in comparison.remarks:
        yield ""
        yield escape(sentence)
    for block in comparison.tables:
        yield ""
        yield f"{escape(block.title)}:"
        yield ""
        yield from table(block.headers, ([escape(cell) for cell in row] for row in block.rows))


def _provenance(facts: Sequence[tuple[str, str]]) -> str:
    known = dict(facts)
    shown = [f"{name} {known[name]}" for name in _PROVENANCE if name in known]
    return f"<sub>{escape(' · '.join(shown))}</sub>"
