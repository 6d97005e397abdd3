"""Where kept tokens stand in the text: receipts speak of tokens, readers see characters.

Added when a record is written, so that reports need no tokenizer: they read the store only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness.models.tokenizer import Tokenizer
from harness.schema.prompts import Prompt
from harness.schema.receipts import Receipt


def placed(receipt: Receipt, prompt: Prompt, tokenizer: Tokenizer) -> Receipt:
    """Return the receipt with the character spans of what was kept.

    Adds to ``details``: ``kept_chars``, half-open character spans of the kept tokens; and where
    the method ranked chunks, ``chunk_starts``, the first character of each. A method that keeps
    no tokens as such gets neither.
    """
    if receipt.kept_spans is None:
        return receipt
    whole = receipt.kept_spans == ((0, len(prompt.token_ids)),)
    if whole and "chunk_deciles" not in receipt.details:
        details = {**receipt.details, "kept_chars": [[0, len(prompt.text)]]}
        return replace(receipt, details=details)
    _, offsets = tokenizer.encode_with_offsets(prompt.text)
    details = {**receipt.details, "kept_chars": character_spans(receipt.kept_spans, offsets)}
    if "chunk_deciles" in receipt.details:
        chunk = int(receipt.details["chunk"])
        details["chunk_starts"] = [start for start, _ in offsets[::chunk]]
    return replace(receipt, details=details)


def character_spans(
    token_spans: Sequence[tuple[int, int]], offsets: Sequence[tuple[int, int]]
) -> list[list[int]]:
    """Turn half-open token spans into half-open character spans, JSON-ready.

    >>> character_spans([(1, 3)], [(0, 2), (2, 5), (5, 9), (9, 10)])
    [[2, 9]]
    """
    return [
        [offsets[start][0], offsets[stop - 1][1]]
        for start, stop in token_spans
        if 0 <= start < stop <= len(offsets)
    ]
