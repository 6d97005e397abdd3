"""Prompts cut into kept and dropped pieces, and what is left out of a long one."""

from hypothesis import given
from hypothesis import strategies as st

from harness.report.pages.browser import MAX_PROMPT_CHARS, STRETCH_ENDS, shorten
from harness.report.pages.text_map import Piece, map_text
from harness.schema.receipts import Receipt, Status
from harness.schema.records import ExampleRecord


def example(text, tokens, evidence=()):
    """An example with its token count and evidence spans."""
    spans = {"evidence": [list(span) for span in evidence]}
    return ExampleRecord("e", "t", None, 0, 0, text, tokens, "d", "c", (), spans)


def receipt(spans, **details):
    """A receipt that kept some token spans."""
    return Receipt("specprefill", Status.ACTIVE, kept_spans=spans, details=details)


def test_kept_text_and_evidence_are_told_apart():
    """Characters 3–8 were kept, 6–8 are evidence: four kinds of piece in order."""
    kept = receipt(((1, 3),), kept_chars=[[3, 8]])
    found = map_text(example("aa bb cc dd", 4, [(6, 8)]), kept)
    assert found.reason is None
    looks = [(piece.text, piece.kept, piece.evidence) for piece in found.pieces]
    assert looks == [
        ("aa ", False, False), ("bb ", True, False), ("cc", True, True), (" dd", False, False),
    ]  # fmt: skip


def test_deciles_become_shades():
    """Each chunk's digit shades its characters; the last chunk reaches the end."""
    details = {"chunk_deciles": "063", "chunk_starts": [0, 6, 12], "kept_chars": [[6, 12]]}
    found = map_text(example("aa bb cc dd ee", 5), receipt(((2, 4),), **details))
    shades = {piece.text.strip(): piece.shade for piece in found.pieces}
    assert shades == {"aa bb": 0, "cc dd": 3, "ee": 1}


def test_without_character_spans_the_reason_is_given():
    """The prompt is shown whole, and unmarked text is not passed off as kept."""
    found = map_text(example("aa bb", 2), receipt(((0, 1),)))
    assert "does not say where its tokens stand" in found.reason


def test_a_rewriting_method_has_no_spans():
    """A compressor's receipt has no kept spans: nothing is marked, and it says why."""
    found = map_text(example("aa bb", 2), receipt(None))
    assert "rewrites the prompt" in found.reason


@given(
    st.text(max_size=60),
    st.lists(st.tuples(st.integers(0, 70), st.integers(0, 70)), max_size=6),
    st.lists(st.tuples(st.integers(0, 70), st.integers(0, 70)), max_size=3),
)
def test_pieces_always_join_to_the_text(text, kept, evidence):
    """Whatever spans are recorded, no character is lost, doubled or moved."""
    kept = [tuple(sorted(span)) for span in kept]
    found = map_text(example(text, 1, evidence), receipt(((0, 1),), kept_chars=kept))
    assert "".join(piece.text for piece in found.pieces) == text


def dropped(count, char="d"):
    """A dropped stretch."""
    return Piece(char * count, kept=False, evidence=False)


def test_a_long_prompt_keeps_kept_text_and_evidence_whole():
    """Only dropped stretches are shortened, with the number of characters left out."""
    pieces = [
        dropped(MAX_PROMPT_CHARS),
        Piece("k" * 3000, kept=True, evidence=False),
        Piece("e" * 3000, kept=False, evidence=True),
    ]
    found = shorten(pieces)
    assert found[0].elided == MAX_PROMPT_CHARS - 2 * STRETCH_ENDS
    assert len(found[0].text) == len(found[1].text) == STRETCH_ENDS
    assert [piece.text for piece in found[2:]] == ["k" * 3000, "e" * 3000]


def test_a_short_prompt_is_shown_as_it_is():
    """Nothing is shortened where everything fits."""
    pieces = [dropped(5000)]
    assert shorten(pieces) == pieces


@given(
    st.lists(st.tuples(st.integers(1, 400), st.booleans(), st.booleans()), max_size=40),
    st.integers(50, 2000),
)
def test_a_shortened_prompt_is_bounded_and_accounts_for_every_character(sizes, limit):
    """Whatever was kept: shown plus left out is the whole, evidence is all there."""
    pieces = [Piece("x" * n, kept=kept, evidence=evidence) for n, kept, evidence in sizes]
    found = shorten(pieces, limit)
    shown = sum(len(piece.text) for piece in found)
    assert shown + sum(p.elided for p in found) == sum(len(piece.text) for piece in pieces)
    evidence = sum(len(piece.text) for piece in pieces if piece.evidence)
    assert sum(len(piece.text) for piece in found if piece.evidence) == evidence
    assert shown <= 2 * limit + evidence


def test_a_prompt_of_131072_tokens_stays_small():
    """410 kept chunks among 4,096: the page shows a tenth of a megabyte at most."""
    pieces = [Piece("x" * 128, kept=number % 10 == 0, evidence=False) for number in range(4096)]
    assert sum(len(piece.text) for piece in shorten(pieces)) <= 100_000
