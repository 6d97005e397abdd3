"""The file formats that can be imported, and how each is told from the others and checked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from harness.errors import DataError
from harness.tasks.data.rows import (
    HotpotRow,
    LongBenchRow,
    MusiqueRow,
    NqRow,
    Row,
    RulerRow,
    SquadArticle,
    check,
)
from harness.tasks.data.strict import Source, item_lines, json_lines, json_value
from harness.tasks.scoring.longbench import METRIC_OF

LONGBENCH_E = (
    "qasper", "multifieldqa_en", "hotpotqa", "2wikimqa", "gov_report", "multi_news", "trec",
    "triviaqa", "samsum", "passage_count", "passage_retrieval_en", "lcc", "repobench-p",
)  # fmt: skip
"""The 13 data sets with evenly spread lengths (LongBench, README)."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A checked file: what it is, its rows, and the set that it makes."""

    format: str
    set_name: str
    rows: list[Any]

    @property
    def count(self) -> int:
        """Questions, samples or documents in it."""
        if self.format == "squad":
            return sum(len(p.qas) for article in self.rows for p in article.paragraphs)
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class Format:
    """One publisher's format.

    Attributes
    ----------
    keys
        Keys of a row that tell the format.
    row
        Its checked model.
    identity
        What must be unique in a file; None where rows have no identity.
    set_name
        Name of the set that a file of this format makes.
    extra
        A further check of a row; returns what is wrong, or None.
    """

    title: str
    keys: frozenset[str]
    row: type[Row]
    identity: Callable[[Any], str | int] | None
    set_name: Callable[[list[Any], Source], str]
    extra: Callable[[Any], str | None] = lambda _row: None


def _longbench_fault(row: LongBenchRow) -> str | None:
    dataset = row.dataset.removesuffix("_e")
    if dataset not in METRIC_OF:
        return f"dataset: {row.dataset!r} is none of LongBench's 21"
    if METRIC_OF[dataset] == "classification" and not row.all_classes:
        return f"all_classes: {dataset} is scored by class names, and there are none"
    shape = {"retrieval": r"Paragraph \d+", "retrieval_zh": r"段落\d+"}.get(METRIC_OF[dataset])
    if shape and not all(re.search(shape, answer) for answer in row.answers):
        return f"answers: {dataset} is scored by a paragraph's number, which is missing"
    return None


def _longbench_name(rows: list[LongBenchRow], source: Source) -> str:
    names = {row.dataset.removesuffix("_e") for row in rows}
    if len(names) > 1:
        raise DataError(f"{source.name}: rows of several data sets: {', '.join(sorted(names))}")
    name = names.pop()
    even = all(r.dataset.endswith("_e") for r in rows) or _stem(source).endswith("_e")
    if even and name not in LONGBENCH_E:
        raise DataError(f"{source.name}: {name} has no LongBench-E part")
    return f"longbench_{name}_e" if even else f"longbench_{name}"


def _stem(source: Source) -> str:
    return PurePath(re.split(r"[:/\\]", source.name)[-1]).name.split(".")[0]


def _ruler_name(_: list[Any], source: Source) -> str:
    parts = [part for part in re.split(r"[:/\\]", source.name) if part]
    stem = _stem(source)
    generic = stem in {"validation", "test"} and len(parts) > 1
    return f"ruler_rows_{re.sub(r'[^A-Za-z0-9_.-]', '_', parts[-2] if generic else stem)}"


FORMATS: Mapping[str, Format] = {
    "longbench": Format(
        "LongBench rows",
        frozenset({"input", "context", "answers", "length", "dataset", "language", "all_classes"}),
        LongBenchRow,
        lambda row: str(row.id),
        _longbench_name,
        _longbench_fault,
    ),
    "2wikimultihopqa": Format(
        "2WikiMultihopQA",
        frozenset({"question", "answer", "context", "supporting_facts", "evidences"}),
        HotpotRow,
        lambda row: str(row.id),
        lambda *_: "2wikimultihopqa",
    ),
    "hotpotqa": Format(
        "HotpotQA (distractor)",
        frozenset({"question", "answer", "context", "supporting_facts", "level"}),
        HotpotRow,
        lambda row: str(row.id),
        lambda *_: "hotpotqa",
    ),
    "musique": Format(
        "MuSiQue",
        frozenset({"id", "paragraphs", "question", "question_decomposition", "answer_aliases"}),
        MusiqueRow,
        lambda row: str(row.id),
        lambda *_: "musique",
    ),
    "nq_lost_in_the_middle": Format(
        "Natural Questions, lost-in-the-middle format",
        frozenset({"question", "answers", "ctxs", "nq_annotated_gold"}),
        NqRow,
        None,
        lambda *_: "nq_lost_in_the_middle",
    ),
    "ruler": Format(
        "RULER samples",
        frozenset({"index", "input", "outputs", "length", "answer_prefix"}),
        RulerRow,
        lambda row: int(row.index),
        _ruler_name,
    ),
}
"""Formats with one row a JSONL line or array item. SQuAD and essays are one object each."""

TITLES = {name: one.title for name, one in FORMATS.items()} | {
    "squad": "SQuAD",
    "essays": "essays",
}


def read(source: Source) -> Parsed:
    """Recognise and check a whole file.

    Raises
    ------
    DataError
        The first fault, with the file's name and the line number.
    """
    if source.name.endswith(".txt"):
        return Parsed("essays", "essays", [source.text()])
    return _read_rows(source, list(json_lines(source))) if _is_lines(source) else _whole(source)


def _is_lines(source: Source) -> bool:
    """Whether a file is JSONL: by its name, else because its first line is a whole object."""
    if source.name.endswith(".jsonl"):
        return True
    head = source.data.lstrip()
    return (
        head.startswith(b"{")
        and b"\n" in head.strip()
        and head.split(b"\n", 1)[0].rstrip().endswith(b"}")
    )


def _whole(source: Source) -> Parsed:
    value = json_value(source)
    text = source.data.decode("utf-8")
    if isinstance(value, list):
        if not value:
            source.fail(1, "an empty list")
        return _read_rows(source, _with_lines(text, text.index("["), value))
    if isinstance(value, dict) and isinstance(value.get("data"), list):
        return _squad(source, text, value["data"])
    if isinstance(value, dict) and isinstance(value.get("text"), str):
        if not value["text"].strip():
            source.fail(1, "text: the essays are empty")
        return Parsed("essays", "essays", [value["text"]])
    if isinstance(value, dict):
        return _read_rows(source, [(1, value)])
    return source.fail(1, _unknown(value))


def _with_lines(text: str, start: int, items: list[Any]) -> list[tuple[int, Any]]:
    return list(zip(item_lines(text, start, len(items)), items, strict=True))


def _squad(source: Source, text: str, data: list[Any]) -> Parsed:
    """SQuAD's one object: ``data`` holds articles, articles hold paragraphs with questions."""
    if not data:
        source.fail(1, "data: an empty list")
    opening = re.search(r'"data"\s*:\s*\[', text)
    assert opening is not None  # it has been parsed
    articles: list[SquadArticle] = []
    seen: dict[str, int] = {}
    for line, item in _with_lines(text, opening.end() - 1, data):
        article = _checked(source, line, SquadArticle, item)
        for paragraph in article.paragraphs:
            for qa in paragraph.qas:
                _unique(source, line, qa.id, seen)
        articles.append(article)
    parsed = Parsed("squad", "squad", articles)
    if not parsed.count:
        source.fail(1, "no questions")
    return parsed


def _read_rows(source: Source, rows: list[tuple[int, Any]]) -> Parsed:
    if not rows:
        source.fail(1, "the file is empty")
    name = _recognise(source, *rows[0])
    form = FORMATS[name]
    checked = list(_check_rows(source, form, rows))
    return Parsed(name, form.set_name(checked, source), checked)


def _check_rows(source: Source, form: Format, rows: list[tuple[int, Any]]) -> Iterator[Any]:
    seen: dict[str | int, int] = {}
    for line, value in rows:
        row = _checked(source, line, form.row, value)
        fault = form.extra(row)
        if fault:
            source.fail(line, fault)
        if form.identity is not None:
            _unique(source, line, form.identity(row), seen)
        yield row


def _checked(source: Source, line: int, model: type[Any], value: Any) -> Any:
    if not isinstance(value, dict):
        source.fail(line, f"a row is a JSON object, not {_kind(value)}")
    try:
        return check(model, value)
    except ValueError as error:
        source.fail(line, str(error))


def _unique(source: Source, line: int, identity: Any, seen: dict[Any, int]) -> None:
    if identity in seen:
        source.fail(line, f"id {identity!r} was on line {seen[identity]} already")
    seen[identity] = line


def _recognise(source: Source, line: int, row: Any) -> str:
    """The format that shares the most keys with the first row: two at least."""
    if not isinstance(row, dict):
        source.fail(line, f"a row is a JSON object, not {_kind(row)}")
    shared = {name: len(form.keys & row.keys()) / len(form.keys) for name, form in FORMATS.items()}
    best = max(shared, key=lambda name: shared[name])
    if len(FORMATS[best].keys & row.keys()) < 2:
        source.fail(line, _unknown(row))
    return best


def _unknown(value: Any) -> str:
    keys = ", ".join(sorted(map(str, value))[:6]) if isinstance(value, dict) else _kind(value)
    return f"no format that is known (it has {keys}); known: {', '.join(TITLES.values())}"


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "a truth value"}
    return names.get(type(value), "null" if value is None else "a number")
