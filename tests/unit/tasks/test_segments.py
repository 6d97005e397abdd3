"""Spans point at what they name, through templates and truncation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import DataError
from harness.schema.prompts import Segments, Span
from harness.tasks.segments import Cut, evidence_tokens, locate, place, share_kept

USER = "Read.\nAnn is tall. Ann is tall. Bob is small.\nWho is small? Bob is small."
PARTS = {
    "instruction": ["Read."],
    "documents": ["Ann is tall.", "Ann is tall.", "Bob is small."],
    "question": ["Who is small?"],
    "evidence": [[2, "small"]],
}


def texts(segments: Segments, role: str, text: str) -> list[str]:
    """What a role's spans cover."""
    return [text[a:b] for a, b in getattr(segments, role)]


def test_equal_documents_are_found_one_after_the_other() -> None:
    """Repeated texts get spans of their own; evidence lies in the document that it names."""
    found = locate(PARTS, USER, task="t")
    assert texts(found, "documents", USER) == PARTS["documents"]
    assert len(set(found.documents)) == 3
    (evidence,) = found.evidence
    assert found.documents[2].start <= evidence.start
    assert evidence.stop <= found.documents[2].stop


def test_what_is_neither_document_nor_question_is_instruction() -> None:
    """A task need not name its instruction."""
    parts = {k: v for k, v in PARTS.items() if k != "instruction"}
    found = locate(parts, USER, task="t")
    assert texts(found, "instruction", USER) == ["Read.", "Bob is small."]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"documents": ["Eve is tall."]}, "Eve is tall"),
        ({"documents": ["Bob is small.", "Ann is tall."]}, "Ann is tall"),
        ({"question": ["Who is tall?"]}, "Who is tall"),
        ({"evidence": [[0, "small"]]}, "small"),
        ({"answers": ["Bob"]}, "answers"),
    ],
)
def test_a_wrong_part_is_refused(change: dict[str, list[str]], match: str) -> None:
    """A text that is not where the task says is the task's fault, and named."""
    with pytest.raises(DataError, match=match):
        locate({**PARTS, **change}, USER, task="t")


@pytest.mark.parametrize("frame", ["<s>[INST] {} [/INST]", "{}", "user\n\n{}\nassistant\n"])
def test_spans_move_with_a_template(frame: str) -> None:
    """After templating each span covers the same text."""
    found = locate(PARTS, USER, task="t")
    rendered = frame.format(USER)
    moved = place(found, USER, rendered)
    for role in PARTS:
        assert texts(moved, role, rendered) == texts(found, role, USER)


def test_a_template_that_trims() -> None:
    """Some templates strip the user's text; spans follow."""
    user = f"  \n{USER}\n "
    found = locate(PARTS, user, task="t")
    rendered = f"<u>{user.strip()}</u>"
    assert texts(place(found, user, rendered), "documents", rendered) == PARTS["documents"]


def test_a_template_that_changes_the_text_is_refused() -> None:
    """Spans are never guessed."""
    with pytest.raises(DataError, match="changes the user's text"):
        place(locate(PARTS, USER, task="t"), USER, USER.upper())


@given(st.data())
def test_a_cut_keeps_what_it_did_not_take(data: st.DataObject) -> None:
    """Spans before and after a cut still cover their text; one inside it is gone."""
    text = "".join(chr(ord("a") + i % 26) for i in range(60))
    a, b = sorted(data.draw(st.tuples(st.integers(0, 60), st.integers(0, 60))))
    start, stop = sorted(data.draw(st.tuples(st.integers(0, 60), st.integers(0, 60))))
    cut = Cut(a, b)
    shown = text[:a] + text[b:]
    span = cut.map(Span(start, stop))
    remains = "".join(text[i] for i in range(start, stop) if not a <= i < b)
    assert (shown[span.start : span.stop] if span else "") == remains


def test_evidence_kept_counts_tokens() -> None:
    """A token is evidence where it shares a character with it; the share is of these tokens."""
    segments = Segments(evidence=(Span(4, 9),))
    gold = evidence_tokens(segments, [(0, 3), (3, 5), (5, 8), (8, 12), (12, 14)])
    assert gold == {1, 2, 3}
    assert share_kept(gold, [(0, 2), (3, 4)]) == pytest.approx(2 / 3)
    assert share_kept(frozenset(), [(0, 2)]) is None
