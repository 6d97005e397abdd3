"""Small good files of every supported format, as text, to be broken in one place each."""

from __future__ import annotations

import json
from typing import Any

LONGBENCH: dict[str, Any] = {
    "input": "q", "context": "c", "answers": ["a"], "length": 1, "dataset": "qasper",
    "language": "en", "all_classes": None, "_id": "r1",
}  # fmt: skip
HOTPOT: dict[str, Any] = {
    "_id": "h1", "question": "Who?", "answer": "Ann", "level": "easy", "type": "bridge",
    "supporting_facts": [["A", 0], ["B", 0]],
    "context": [["A", ["Ann is tall.", " So."]], ["B", ["Bob knows Ann."]], ["C", ["No."]]],
}  # fmt: skip
WIKI = {**HOTPOT, "_id": "w1", "evidences": [["Bob", "knows", "Ann"]]}
MUSIQUE: dict[str, Any] = {
    "id": "m1", "question": "Who?", "answer": "Ann", "answer_aliases": ["A."], "answerable": True,
    "question_decomposition": [],
    "paragraphs": [
        {"idx": 0, "title": "A", "paragraph_text": "Ann is tall.", "is_supporting": True},
        {"idx": 1, "title": "B", "paragraph_text": "Bob is small.", "is_supporting": False},
    ],
}  # fmt: skip
NQ: dict[str, Any] = {
    "question": "Who?", "answers": ["Ann"], "nq_annotated_gold": {},
    "ctxs": [
        {"title": "A", "text": "Ann is tall.", "isgold": True},
        {"title": "B", "text": "Bob is small.", "isgold": False},
    ],
}  # fmt: skip
RULER: dict[str, Any] = {
    "index": 0, "input": "The number is 42. Which?", "outputs": ["42"], "length": 9,
    "answer_prefix": " It is",
}  # fmt: skip
SQUAD: dict[str, Any] = {
    "version": "v2.0",
    "data": [
        {"title": "T", "paragraphs": [{"context": "Ann is tall.", "qas": [
            {"id": "s1", "question": "Who is tall?", "is_impossible": False,
             "answers": [{"text": "Ann", "answer_start": 0}]}]}]},
        {"title": "U", "paragraphs": [{"context": "Bob is small.", "qas": [
            {"id": "s2", "question": "Who is small?", "is_impossible": False,
             "answers": [{"text": "Bob", "answer_start": 0}]}]}]},
    ],
}  # fmt: skip


def lines(*rows: Any) -> str:
    """Rows as JSONL."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def pretty(value: Any) -> str:
    """A value as indented JSON."""
    return json.dumps(value, ensure_ascii=False, indent=1)


def numbered(row: dict[str, Any], key: str, count: int = 3) -> list[dict[str, Any]]:
    """Copies of a row with different ids."""
    first = row[key]
    return [{**row, key: f"{first}-{i}" if isinstance(first, str) else i} for i in range(count)]


def without(row: dict[str, Any], key: str) -> dict[str, Any]:
    """A copy without a key."""
    return {k: v for k, v in row.items() if k != key}
