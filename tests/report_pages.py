"""Readers of reports as a person reads them: rows, averages, times and remarks of each format.

Only what is printed is used: nothing here knows how a figure was made or formatted. Columns stand
in the order in which every format has them.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from lxml import html  # lm-eval brings it

HEADERS = ["n", "keep", "score", "δ to full", "ttft", "speed-up"]
Cells = dict[str, Any]


@dataclass
class Page:
    """What a reader finds in one format.

    Attributes
    ----------
    rows
        Cells by task and arm, as labelled.
    beside
        n, score, difference and tasks of what stands below a pooled row, by task, arm and label.
    sections
        Tasks under each heading of the results.
    means
        (score, difference, what is said) by heading, length, arm and label.
    times
        Six figures of a request's times, by task and arm.
    lines
        Verdicts and comparisons of rivals, as sentences.
    tables
        All other tables: rows by header.
    texts
        Lines or paragraphs.
    """

    rows: dict[tuple[str, str], Cells] = field(default_factory=dict)
    beside: dict[tuple[str, str, str], tuple[str, ...]] = field(default_factory=dict)
    sections: dict[str, list[str]] = field(default_factory=dict)
    means: dict[tuple[str, str, str, str], tuple[str, str, str]] = field(default_factory=dict)
    times: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    tables: list[list[dict[str, str]]] = field(default_factory=list)
    texts: Sequence[str] = ()

    def add(self, task: str, arm: str, cells: Sequence[str]) -> str:
        """Add a row; the numbers of its remarks stand behind the arm, as ``full (1) (2)``."""
        name, *marks = re.split(r" \((?=\d+\))", arm)
        shown: Cells = dict(zip([*HEADERS, "status"], cells, strict=True))
        shown["remarks"] = [mark.rstrip(")") for mark in marks]
        assert (task, name) not in self.rows
        self.rows[task, name] = shown
        return name

    def add_results(self, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Add a table: a line without arm begins a section, averages stand below its rows."""
        assert [name.lower() for name in head[2:-1]] == HEADERS
        section, last, length, mean = "", ("", ""), "", False
        for first, arm, *cells in rows:
            n, _, score, delta, _, _, said = cells or [""] * 7
            if not arm:
                section, mean = first.lower().removesuffix(" (tasks that count)"), False
            elif first.startswith("mean of"):
                label, _, length = first.partition(" @ ")
                self.means[section, length, arm, label] = score, delta, said
                mean = True
            elif first.startswith("without") and mean:
                self.means[section, length, arm, first] = score, delta, said
            elif first.startswith("without"):
                assert arm == last[1]
                self.beside[*last, first] = n, score, delta, said
            else:
                self.sections.setdefault(section, []).append(re.split(r" \(pooled\)| @ ", first)[0])
                last = first, self.add(first, arm, cells)

    def resolve_remarks(self, pattern: str, texts: Iterable[str]) -> Page:
        """Put the texts of remarks in place of their numbers."""
        found = filter(None, (re.fullmatch(pattern, text.strip()) for text in texts))
        named = {match[1]: match[2] for match in found}
        for cells in self.rows.values():
            cells["remarks"] = sorted(named[number] for number in cells["remarks"])
        return self


def read_json(text: str) -> Page:
    """Read the tables of a comparison; the rest is the truth that others are held against."""
    page = Page(texts=[text])
    for one in json.loads(text).get("paper", {"tables": []})["tables"]:
        page.tables.append([dict(zip(one["headers"], line, strict=True)) for line in one["rows"]])
    return page


def read_csv(text: str) -> Page:
    """Read lines by column."""
    page = Page()
    for line in csv.DictReader(io.StringIO(text)):
        key = labels({**line, "length": int(line["length"]) if line["length"] else None})
        assert key not in page.rows
        page.rows[key] = {"csv": line}
    return page


def read_terminal(text: str) -> Page:
    """Read a wide page: columns of its table stand two blanks apart, a heading stands alone."""
    page = Page(texts=text.splitlines())
    table, _, rest = text.partition("Time of a request\n")
    times, _, rest = rest.partition("Averages over tasks:\n")
    averages, _, rest = rest.partition("Verdicts against")
    task, arm = "", ""
    for line in map(str.strip, table.splitlines()):
        first, *cells = re.split(r"\s{2,}", line)
        if first == "task and arm":
            assert [name.lower() for name in cells] == [*HEADERS, "status"]
        elif first.startswith("without "):
            n, score, delta, said = cells
            page.beside[task, arm, first] = n, score, delta, said
        elif cells:
            arm = page.add(task, first, cells)
        elif first:
            task = line.partition(" · ")[0]
    for line in times.splitlines():
        if match := re.fullmatch(r"    (.+?): per token (.+) · end to end (.+)", line):
            token, whole = _figure_and_ratio(match[2]), _figure_and_ratio(match[3])
            page.times[task, match[1]] = (*token, *whole)
        else:
            task = line.strip()
    length, pattern = "", r"(\S+ .+?), (mean of .+?|without .+?): (.+)"
    for line in averages.splitlines():
        heading, label, arms = re.fullmatch(pattern, line).groups()
        label, _, said = label.partition(" (") if label.startswith("without") else (label, "", "")
        if label.startswith("mean"):
            label, _, length = label.partition(" @ ")
        for part in arms.split("; "):
            name, score, delta, why = re.fullmatch(
                r"(\S+) (\S+?)(?: \(Δ (\S+)\))?(?: \((no score .+)\))?", part
            ).groups(default="")
            page.means[heading, length, name, label] = score, delta or "–", why or said.rstrip(")")
    page.lines = [line.strip() for line in rest.splitlines() if line.startswith("  ")]
    return page.resolve_remarks(r"\((\d+)\) (.+)", page.texts)


def read_markdown(text: str) -> Page:
    """Read tables, of which the first has the results."""
    page = Page(texts=[re.sub(r"\\(.)", r"\1", line) for line in text.splitlines()])
    page.lines = [line[2:] for line in page.texts if line.startswith("- ")]
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        cells = [re.split(r" ?(?<!\\)\| ?", line)[1:-1] for line in block.splitlines()]
        head, _, *rows = [[re.sub(r"\\(.)", r"\1", cell).strip("*") for cell in c] for c in cells]
        _add_table(page, head, rows)
    return page.resolve_remarks(r"(\d+)\. (.+)", page.texts)


def read_html(text: str) -> Page:
    """Read tables; ``<data>`` has exact figures, and links lead to the remarks."""
    root, page = html.fromstring(text), Page()
    page.texts = [_flat(found) for found in root.iter("p", "li", "caption")]
    page.lines = [_flat(item) for item in root.xpath("//section[@id='results']/ul/li")]
    for table in root.iter("table"):
        if table.getparent().getparent().tag == "details":
            continue  # the numbers of a figure
        head, *rows = ([*map(_flat, row)] for row in table.iter("tr"))
        if table.get("id") == "results-table":
            rows = map(_as_markdown, [*table.iter("tr")][1:])
        _add_table(page, head, rows)
    for cells, row in zip(page.rows.values(), root.xpath("//tr[@data-row]"), strict=True):
        cells["exact"] = [float(data.get("value")) for data in row.iter("data")]
        cells["requests"] = "".join(re.findall(r"(\d+) requests", _flat(row)))
        cells["tags"] = [_flat(tag) for tag in row[0].iter("span")]
    notes = (f"{li.get('id')} {_flat(li)}" for li in root.xpath("//ol[@class='remarks']/li"))
    return page.resolve_remarks(r"remark-(\d+) (.+)", notes)


def _add_table(page: Page, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    if "n" in [name.lower() for name in head] and not page.rows:
        page.add_results(head, rows)
    elif "per token" in head:
        page.times = {(task, arm): tuple(cells) for task, arm, *cells in rows}
    else:
        page.tables.append([dict(zip(head, row, strict=True)) for row in rows])


def _as_markdown(row: Any) -> list[str]:
    """Write a row of HTML as Markdown has it: remarks at the arm, keep as asked → achieved."""
    first, arm, *cells = [*map(_flat, row), ""] if len(row) == 1 else map(_flat, row)
    cells = [re.sub(r"^(\S+) of (\S+) asked$", r"\2 → \1", cell) for cell in cells]
    cells = [re.sub(r" no interval$| \d+ requests$|( \d+)+$", "", cell) for cell in cells]
    marks = (f" ({link.get('href').removeprefix('#remark-')})" for link in row.iter("a"))
    tags = "".join(f" {_flat(tag)}" for tag in row[0].iter("span"))
    return [first.removesuffix(tags), arm + "".join(marks), *cells]


def _figure_and_ratio(text: str) -> tuple[str, str]:
    """Split ``20.0 ms 1.00× [1.00, 1.00]`` behind its unit; a dash has none."""
    figure, ratio = re.fullmatch(r"(– |\S+ m?s )(.+)", text).groups()
    return figure.strip(), ratio


def _flat(element: Any) -> str:
    return " ".join(element.text_content().split())


READERS: dict[str, Callable[[str], Page]] = {
    "json": read_json,
    "csv": read_csv,
    "terminal": read_terminal,
    "md": read_markdown,
    "html": read_html,
}


def labels(row: Cells) -> tuple[str, str]:
    """Return how every format names a row."""
    task = row["task"] + (" (pooled)" if row["level"] == "group" else "")
    size = "" if row["length"] is None else f" @ {row['length']:,}"
    return task + size, row["arm"] + (f", seed {row['seed']}" if row["level"] == "seed" else "")


def shown(value: float | None, digits: int = 3, sign: str = "-") -> str:
    """Return a figure as it must be printed."""
    text = "–" if value is None else f"{value:{sign}.{digits}f}"
    return (text.lstrip("+-") if value is not None and not float(text) else text).replace("-", "−")


def estimate(raw: Cells | None, key: str, digits: int = 3, sign: str = "-", unit: str = "") -> str:
    """Return a figure with its interval as it must be printed."""
    if raw is None or raw[key] is None:
        return "–"
    text, ends = shown(raw[key], digits, sign) + unit, [raw["low"], raw["high"]]
    return text if None in ends else f"{text} [{', '.join(shown(e, digits, sign) for e in ends)}]"


def seconds(value: float | None, *, milli: bool = False) -> str:
    """Return seconds as they must be printed."""
    if value is None:
        return "–"
    if milli:
        return f"{1000 * value:.{2 if value < 0.01 else 1}f} ms"
    return f"{value:.{3 if value < 1 else 2}f} s"


def means_of(
    summary: Cells, *, terminal: bool
) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Yield every average that must be printed: heading, length, arm, label → what stands there."""
    spread: dict[str, set[str]] = {}
    for mean in summary["categories"]:
        spread.setdefault(mean["group"], set()).add(mean["category"])
    for mean in summary["categories"]:
        number, overall = len(mean["tasks"]), mean["category"] == "overall"
        if number == 1 and not (terminal and len(spread[mean["group"]]) > 1):
            continue  # the row of its only task says it
        over = f"{number} task{'s' * (number > 1)}"
        if overall and mean["weighs"] == "categories":
            over = f"{len(mean['categories'])} categories ({over})"
        words = mean["category"].replace("_", " ")
        heading = f"{mean['group']} {words}" if terminal else f"{mean['group']} · {words}"
        place = heading, f"{mean['length']:,}" if mean["length"] else "", mean["arm"]
        lacking = f"no score on {_some(mean['left_out'])}" if mean["left_out"] else ""
        label = f"mean of {over}" + ", floor" * mean["floor"]
        yield (*place, label), (shown(mean["score"]), shown(mean["delta"], sign="+"), lacking)
        for kind in ("floor", "counting"):
            part = mean[f"without_{kind}"]
            if part is not None:
                figures = shown(part["score"]), shown(part["delta"], sign="+")
                label = without(kind, part["left_out"])
                yield (*place, label), (*figures, ", ".join(part["left_out"]))


def without(kind: str, tasks: Sequence[str]) -> str:
    """Return how figures without some tasks are labelled."""
    return f"without {len(tasks)} {kind} task{'s' * (len(tasks) > 1)}"


def _some(names: Sequence[str]) -> str:
    few = len(names) <= 3
    return ", ".join(names) if few else f"{', '.join(names[:2])} and {len(names) - 2} more"
