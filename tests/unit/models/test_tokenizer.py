"""Plain prompts get the model's own tokens, whatever its tokenizer puts in front."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny import metaspace_tokenizer

from harness.models.tokenizer import Tokenizer

TEXTS = ("One of the special numbers is 7.", " a blank first", "ü", "")


@pytest.mark.parametrize("scheme", ["always", "first"])
def test_a_start_token_leaves_the_blank_of_the_first_word(tmp_path: Path, scheme: str) -> None:
    """The ids of a plain prompt are those that the tokenizer gives when it adds its own start."""
    tokenizer = metaspace_tokenizer(tmp_path, scheme)
    for text in TEXTS:
        assert tokenizer.encode(tokenizer.plain(text)) == tuple(tokenizer.hf(text)["input_ids"])


def test_a_tokenizer_without_a_start_token_adds_nothing(smollm2: Tokenizer) -> None:
    """The embedded model's plain prompt is the text itself."""
    for text in TEXTS:
        assert smollm2.plain(text) == text
