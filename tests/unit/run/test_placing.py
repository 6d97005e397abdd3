"""Token spans as character spans, written with each record."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from harness.run.placing import character_spans, placed
from harness.schema.prompts import Prompt
from harness.schema.receipts import Receipt, Status


class Words:
    """Words with the space before them as tokens, one after the other."""

    calls = 0

    def encode_with_offsets(self, text):
        """Split before each space."""
        self.calls += 1
        cuts = [0, *(i for i, char in enumerate(text) if char == " " and i), len(text)]
        return (), tuple(pairwise(cuts))


PROMPT = Prompt("e", "aa bb cc dd ee", (1, 2, 3, 4, 5))


def receipt(spans, **details):
    """A receipt that kept some token spans."""
    return Receipt("m", Status.ACTIVE, kept_spans=spans, details=details)


def test_kept_tokens_and_chunks_get_their_characters():
    """Tokens 1–2 and 4 of five words, in chunks of two."""
    found = placed(receipt(((1, 3), (4, 5)), chunk=2, chunk_deciles="058"), PROMPT, Words())
    assert [PROMPT.text[a:b] for a, b in found.details["kept_chars"]] == [" bb cc", " ee"]
    assert found.details["chunk_starts"] == [0, 5, 11]


def test_a_whole_prompt_needs_no_tokenizer():
    """Full prefill keeps everything: nothing is tokenized for it."""
    words = Words()
    found = placed(receipt(((0, 5),)), PROMPT, words)
    assert found.details["kept_chars"] == [[0, len(PROMPT.text)]]
    assert words.calls == 0


def test_a_method_without_kept_tokens_is_left_alone():
    """A compressor's receipt has no spans to place."""
    assert placed(receipt(None), PROMPT, Words()) == receipt(None)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12), st.data())
def test_spans_cover_exactly_the_kept_tokens(widths, data):
    """Whatever tokens are kept, their characters are covered and no others."""
    ends = [sum(widths[: i + 1]) for i in range(len(widths))]
    offsets = list(zip([0, *ends], ends, strict=False))
    kept = sorted(data.draw(st.sets(st.integers(0, len(widths) - 1))))
    spans = character_spans([(i, i + 1) for i in kept], offsets)
    covered = [char for start, stop in spans for char in range(start, stop)]
    assert covered == [char for i in kept for char in range(*offsets[i])]
