"""The target's tokenizer, with the few operations that prompts need."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from transformers import AutoTokenizer, PreTrainedTokenizerBase


class Tokenizer:
    """A fast tokenizer that never adds a special token by itself.

    A rendered chat prompt already carries its start token; a plain prompt gets the model's own
    with :meth:`plain`. So ``encode(text)`` of a stored prompt always gives the stored ids.
    """

    def __init__(self, hf: PreTrainedTokenizerBase) -> None:
        self.hf = hf

    @classmethod
    def load(cls, path: str, *, trust_remote_code: bool = False) -> Tokenizer:
        """Load from a folder or a cached hub name."""
        return cls(AutoTokenizer.from_pretrained(path, trust_remote_code=trust_remote_code))

    def encode(self, text: str) -> tuple[int, ...]:
        """Token ids of ``text``, special tokens in the text recognised, none added."""
        return tuple(self.hf.encode(text, add_special_tokens=False))

    def encode_with_offsets(self, text: str) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
        """Token ids and their half-open character spans in ``text``."""
        out = self.hf(text, add_special_tokens=False, return_offsets_mapping=True)
        return tuple(out["input_ids"]), tuple((a, b) for a, b in out["offset_mapping"])

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Text of ``ids``."""
        text = self.hf.decode(
            list(ids),
            skip_special_tokens=skip_special_tokens,
            clean_up_tokenization_spaces=False,
        )
        return text if isinstance(text, str) else "".join(text)

    @property
    def has_chat_template(self) -> bool:
        """Whether the model folder carries a chat template."""
        return bool(self.hf.chat_template)

    def chat(self, messages: Sequence[Mapping[str, Any]], *, answer_prefix: str = "") -> str:
        """Render messages, open the assistant's turn and begin it with ``answer_prefix``."""
        rendered = self.hf.apply_chat_template(
            [dict(m) for m in messages], tokenize=False, add_generation_prompt=True
        )
        return str(rendered) + answer_prefix

    def plain(self, text: str) -> str:
        """``text`` with the model's start token in front, where the tokenizer would add one."""
        word_first = text[:1] not in {"", " "}
        return (self._start if word_first else self._start.removesuffix(" ")) + text

    @cached_property
    def _start(self) -> str:
        """What :meth:`plain` puts in front.

        A tokenizer that puts a blank before a text's first word (Llama 2) does not put one behind
        a start token that stands in the text, so the blank is written out.
        """
        wanted = tuple(self.hf("a")["input_ids"])
        bos = self.hf.bos_token_id
        if bos is None or wanted[:1] != (bos,):
            return ""
        start = str(self.hf.bos_token)
        return next((s for s in (start, f"{start} ") if self.encode(f"{s}a") == wanted), start)

    @property
    def bos_token_id(self) -> int | None:
        """The start token's id, None where the model has none."""
        bos = self.hf.bos_token_id
        return bos if bos is None else int(bos)

    @cached_property
    def control_ids(self) -> frozenset[int]:
        """Ids of control tokens: those that a template writes and no text tokenizes to."""
        return frozenset(int(i) for i in self.hf.added_tokens_decoder)

    def template_tokens(self, ids: Sequence[int]) -> tuple[int, ...]:
        """Indices of the control tokens in a prompt."""
        return tuple(index for index, token in enumerate(ids) if token in self.control_ids)

    @cached_property
    def digest(self) -> str:
        """sha256 over the vocabulary, to tell whether two models share a tokenizer."""
        vocabulary = sorted(self.hf.get_vocab().items(), key=lambda item: (item[1], item[0]))
        return hashlib.sha256(repr(vocabulary).encode()).hexdigest()
