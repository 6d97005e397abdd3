"""A context and a continuation whose log-likelihood is wanted, as token ids."""

from __future__ import annotations

from dataclasses import dataclass

from harness.errors import DataError
from harness.schema.prompts import Prompt
from harness.tasks.framing import Frame


@dataclass(frozen=True, slots=True)
class Pair:
    """A context with the continuation that lm-eval wants the log-likelihood of."""

    prompt: Prompt
    continuation: tuple[int, ...]


def split_pair(
    frame: Frame, context: str, continuation: str
) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """Tokenize context and continuation jointly, and split where the continuation begins.

    lm-eval's rule, but for one thing: it splits at the number of tokens that the context has on
    its own. A token that joins the context's end with the continuation's beginning (``hello wor``
    and ``ld``) then leaves the continuation short of tokens, or with none, whose log-likelihood is
    0: certain. Here such a token belongs to the continuation, whole.

    The context's trailing white space goes to the continuation; a context without tokens of its
    own becomes the start token, or the end token of a model without one.

    Returns
    -------
    tuple
        Context's text, its token ids, the continuation's token ids (at least one).

    Raises
    ------
    DataError
        The continuation is empty.
    """
    tokenizer = frame.tokenizer
    bare = context.rstrip()
    continuation = context[len(bare) :] + continuation
    if not continuation:
        raise DataError("a continuation is empty: nothing of it could be scored")
    text = frame.start(bare) if bare else ""
    whole = text + continuation
    ids, offsets = tokenizer.encode_with_offsets(whole)
    blanks = len(continuation) - len(continuation.lstrip()) if continuation.strip() else 0
    first = next(
        index
        for index, (start, stop) in enumerate(offsets)
        # A token that only takes a blank along ("at▁") still is the context's.
        if stop > (len(text) if start >= len(text) else len(text) + blanks)
    )
    if first == 0:
        alone = tokenizer.hf.bos_token or tokenizer.hf.eos_token
        return alone, tokenizer.encode(alone), ids
    return whole[: offsets[first - 1][1]], ids[:first], ids[first:]
