"""How a user's turn and an answer prefix become a whole prompt, counted in exact tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.errors import DataError
from harness.models.tokenizer import Tokenizer

MEMO_TOKENS = 4_000_000
"""Most tokens a frame remembers between generation and use: about 150 MB."""


class TemplateError(DataError):
    """A chat template cannot show what it should."""

    def __init__(self, what: str) -> None:
        super().__init__(f"the model's chat template {what}")


@dataclass(frozen=True)
class Frame:
    """The fixed text that a tokenizer's chat template puts around a prompt.

    Attributes
    ----------
    tokenizer
        The target's tokenizer.
    chat
        Whether the chat template is applied; False for tokenizers without one and for tasks that
        are defined without it.
    """

    tokenizer: Tokenizer
    chat: bool
    _memo: dict[str, tuple[int, ...]] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, tokenizer: Tokenizer, *, chat: bool = True) -> Frame:
        """Return the frame for ``tokenizer``, with its chat template where it has one."""
        return cls(tokenizer, chat and tokenizer.has_chat_template)

    def render(self, user: str, answer_prefix: str = "") -> str:
        """Return the whole prompt.

        With a chat template the prefix begins the assistant's turn. Without one it follows the
        user's text after a space, as RULER's own templates have it, unless either side brings
        white space along. The start token stands in front exactly once where the model has one.
        """
        if self.chat:
            return self.start(self.chatted([{"role": "user", "content": user}], answer_prefix))
        gap = (
            " " if answer_prefix and not (user[-1:].isspace() or answer_prefix[0].isspace()) else ""
        )
        return self.tokenizer.plain(f"{user}{gap}{answer_prefix}")

    def chatted(self, messages: Sequence[Mapping[str, Any]], answer_prefix: str = "") -> str:
        """Render a conversation and begin the assistant's turn.

        A template without a system role gets the system's text at the head of the first user's
        turn. Templates refuse it, or pass it over without a word: both are found out.

        Raises
        ------
        TemplateError
            The template cannot render the conversation.
        """
        try:
            return self._whole(messages, answer_prefix)
        except TemplateError:
            if not messages or messages[0].get("role") != "system":
                raise
        system, *rest = messages
        if not rest or rest[0].get("role") != "user":
            raise TemplateError("takes no system message, and no user's turn follows it")
        head = str(system["content"])
        gap = "" if head[-1:].isspace() else "\n\n"
        first = {**rest[0], "content": f"{head}{gap}{rest[0]['content']}"}
        return self._whole([first, *rest[1:]], answer_prefix)

    def _whole(self, messages: Sequence[Mapping[str, Any]], answer_prefix: str) -> str:
        """Render messages; what the system says must be in the result."""
        from jinja2 import TemplateError as JinjaError

        try:
            text = self.tokenizer.chat(messages, answer_prefix=answer_prefix)
        except (JinjaError, TypeError, ValueError) as error:
            roles = ", ".join(str(message.get("role")) for message in messages)
            reason = " ".join(str(error).split()) or type(error).__name__
            raise TemplateError(f"refuses the roles {roles}: {reason}") from error
        told = (str(m["content"]).strip() for m in messages if m.get("role") == "system")
        if any(part not in text for part in told):
            raise TemplateError("leaves the system's message out")
        return text

    def start(self, rendered: str) -> str:
        """Put the start token in front of a rendered prompt that lacks the one it should have."""
        bos = self.tokenizer.hf.bos_token
        if bos and rendered.startswith(bos):
            return rendered
        return self.tokenizer.plain(rendered)

    def count(self, user: str, answer_prefix: str = "") -> int:
        """Tokens of the whole prompt."""
        return len(self.tokenizer.encode(self.render(user, answer_prefix)))

    def remember(self, text: str, ids: tuple[int, ...]) -> None:
        """Keep the token ids of a finished prompt, so that :meth:`ids` need not encode again."""
        if sum(map(len, self._memo.values())) + len(ids) <= MEMO_TOKENS:
            self._memo[text] = ids

    def ids(self, text: str) -> tuple[int, ...]:
        """Token ids of a whole prompt."""
        known = self._memo.pop(text, None)
        return self.tokenizer.encode(text) if known is None else known

    def pieces(self, texts: list[str]) -> list[int]:
        """Token counts of many short texts, for estimates that :func:`largest_fit` corrects."""
        if not texts:
            return []
        batch = self.tokenizer.hf(texts, add_special_tokens=False)["input_ids"]
        return [len(ids) for ids in batch]


def largest_fit(
    measure: Callable[[int], int],
    budget: int,
    *,
    guess: int,
    unit: float,
    low: int,
    high: int,
    slack: float = 0.0,
    tries: int = 12,
) -> int | None:
    """Find about the largest n in [low, high] with ``measure(n) <= budget``.

    ``measure`` grows with n by about ``unit`` tokens a step, but not evenly. Each try corrects
    the last one by its own error, so a good guess costs one measurement. The answer never
    exceeds the budget and depends on the arguments alone. It may stop ``slack`` tokens short of the
    budget, or one unit.

    Returns
    -------
    int or None
        None where even ``low`` does not fit.
    """
    slack = max(unit, slack)
    best: int | None = None
    too_many = high + 1
    n = min(max(guess, low), high)
    for _ in range(tries):
        used = measure(n)
        if used <= budget:
            best = n if best is None else max(best, n)
            if budget - used < slack or n == high:
                return best
            step = max(1, int((budget - used) / unit))
        else:
            too_many = min(too_many, n)
            step = -max(1, -int(-(used - budget) // unit))
        floor = low if best is None else best + 1
        if floor >= too_many:
            return best
        n = min(max(n + step, floor), too_many - 1)
    return _bisect(measure, budget, low if best is None else best, too_many)


def _bisect(measure: Callable[[int], int], budget: int, low: int, too_many: int) -> int | None:
    """Bisect where corrected guesses did not arrive; None where ``low`` is too many."""
    if too_many <= low or measure(low) > budget:
        return None
    while too_many - low > 1:
        middle = (low + too_many) // 2
        low, too_many = (middle, too_many) if measure(middle) <= budget else (low, middle)
    return low


def fill(sizes: Sequence[int], budget: int, *, close: int = 0) -> list[int]:
    """Choose items whose sizes come close to a budget without exceeding it.

    Items are taken in order, each that still fits. Items of much the same size, such as
    sentences with a UUID, would leave up to a whole item's room: then chosen items are exchanged
    for larger ones, or one more is taken and all are small ones, until at most ``close`` is
    missing.

    Returns
    -------
    list of int
        Indices in order.

    >>> fill([5, 5, 5, 7], 12)
    [1, 3]
    """
    chosen: list[int] = []
    room = budget
    for index, size in enumerate(sizes):
        if size <= room:
            chosen.append(index)
            room -= size
    best, left = _exchange(sizes, chosen, room, close)
    if left > close:
        small = sorted(range(len(sizes)), key=lambda i: (sizes[i], i))[: len(chosen) + 1]
        over = budget - sum(sizes[i] for i in small)
        if over >= 0:
            more, still = _exchange(sizes, small, over, close)
            best = more if still < left else best
    return sorted(best)


def _exchange(
    sizes: Sequence[int], chosen: Sequence[int], room: int, close: int
) -> tuple[list[int], int]:
    """Exchange chosen items for larger ones, the greatest gain that fits first."""
    inside = set(chosen)
    outside = set(range(len(sizes))) - inside
    while room > close:
        gains = (
            (sizes[new] - sizes[old], -old, -new)
            for old in inside
            for new in outside
            if 0 < sizes[new] - sizes[old] <= room
        )
        gain, old, new = max(gains, default=(0, 0, 0))
        if gain == 0:
            break
        inside = inside - {-old} | {-new}
        outside = outside - {-new} | {-old}
        room -= gain
    return list(inside), room
