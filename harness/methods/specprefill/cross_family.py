"""A speculator with another tokenizer: its prompt, and its scores on the target's tokens.

Each stretch of text between the target's control tokens is tokenized by itself, so that offsets
index one and the same string in both. A control token that the speculator also has (two ChatML
models, say) travels as it is; others belong to the target's template alone and are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from harness.methods.specprefill.offsets import Floats, Offsets, map_scores, uncovered_character
from harness.models.folders import locate, same_tokenizer
from harness.schema.prompts import Prompt

if TYPE_CHECKING:
    from harness.models.tokenizer import Tokenizer


class TranslationError(Exception):
    """The two tokenizers cannot be mapped; the text is the receipt's reason."""


@dataclass(frozen=True)
class _Piece:
    """One stretch of text in both tokenizers; ``speculator`` and ``target`` count its tokens."""

    text: str
    speculator: Offsets
    target: Offsets


@dataclass(frozen=True)
class Translation:
    """One prompt for the speculator.

    Attributes
    ----------
    token_ids
        Ms ids of the speculator's tokenizer.
    starts
        The character of the prompt at which each of them starts: [Ms], not decreasing.
    """

    token_ids: tuple[int, ...]
    starts: tuple[int, ...]
    _pieces: tuple[_Piece, ...]

    def to_target(self, scores: Floats) -> Floats:
        """Scores of the target's tokens, [M], from the speculator's, [Ms].

        A control token of the target takes the score of the token before it, or of the first
        token after it.
        """
        found: list[Floats] = []
        at = len(scores) - sum(len(piece.speculator) for piece in self._pieces)  # after its BOS
        for piece in self._pieces:
            part = scores[at : at + len(piece.speculator)]
            at += len(piece.speculator)
            if piece.text:
                found.append(map_scores(piece.text, part, piece.speculator, piece.target))
            else:
                found.append(np.zeros(len(piece.target), dtype=np.float32))
        content = np.repeat(
            [bool(piece.text) for piece in self._pieces],
            [len(piece.target) for piece in self._pieces],
        )
        return _filled(np.concatenate(found), np.flatnonzero(content))


@lru_cache(maxsize=8)
def speculator_tokenizer(target: str, speculator: str) -> Tokenizer | None:
    """Return the speculator's tokenizer where it is another than the target's, else None.

    Both are model folders or hub names in the local cache; a name that is neither has nothing
    to compare.
    """
    if target == speculator:
        return None
    folders = [locate(name) if name else None for name in (target, speculator)]
    if folders[0] is None or folders[1] is None or same_tokenizer(folders[0], folders[1]):
        return None
    from harness.models.tokenizer import Tokenizer

    return Tokenizer.load(str(folders[1]))


def translate(prompt: Prompt, target: Tokenizer, speculator: Tokenizer) -> Translation:
    """Write a prompt in the speculator's tokens.

    Raises
    ------
    TranslationError
        The prompt's text does not give its ids, or the speculator's tokens do not cover it.
    """
    ids, offsets = target.encode_with_offsets(prompt.text)
    if ids != prompt.token_ids:
        raise TranslationError("the prompt's text does not tokenize to its token ids")
    control = target.control_ids
    known = {str(token): i for i, token in speculator.hf.added_tokens_decoder.items()}
    out: list[int] = []
    starts: list[int] = []
    pieces: list[_Piece] = []
    tokens = zip(ids, offsets, strict=True)
    for is_control, group in groupby(tokens, key=lambda token: token[0] in control):
        spans = [span for _, span in group]
        for part in [[span] for span in spans] if is_control else [spans]:
            piece, found = _piece(prompt.text, part, speculator, known, is_control=is_control)
            out += found
            starts += [part[0][0] + start for start, _ in piece.speculator]
            pieces.append(piece)
    bos = speculator.bos_token_id
    if bos is not None and out[:1] != [bos] and speculator.plain("a") != "a":
        out, starts = [bos, *out], [0, *starts]
    return Translation(tuple(out), tuple(starts), tuple(pieces))


def _piece(
    text: str,
    spans: list[tuple[int, int]],
    speculator: Tokenizer,
    known: dict[str, int],
    *,
    is_control: bool,
) -> tuple[_Piece, list[int]]:
    """Return one stretch of the target's tokens, and the speculator's ids for it."""
    start, stop = spans[0][0], max(end for _, end in spans)
    here = text[start:stop]
    if is_control:
        shared = known.get(here)
        # A shared control token needs a slot for its score, which nobody reads.
        own: Offsets = [] if shared is None else [(0, 0)]
        return _Piece("", own, [(0, 0)]), [] if shared is None else [shared]
    ids, offsets = speculator.encode_with_offsets(here)
    gap = uncovered_character(here, offsets)
    if gap is not None:
        raise TranslationError(
            f"the speculator's tokenizer rewrites the text: no token covers {here[gap]!r} "
            f"at character {start + gap}"
        )
    target = [(a - start, b - start) for a, b in spans]
    return _Piece(here, offsets, target), list(ids)


def _filled(scores: Floats, content: npt.NDArray[np.int64]) -> Floats:
    """Give every other entry the score of the ``content`` entry before it, else after it."""
    if content.size == 0:
        return scores
    before = np.searchsorted(content, np.arange(len(scores)), side="right") - 1
    filled: Floats = scores[content[np.maximum(before, 0)]]
    return filled
