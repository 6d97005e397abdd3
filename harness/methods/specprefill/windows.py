"""How a prompt longer than the speculator's window is cut into windows (ALGORITHM.md).

Plans only: no model and no scores. A plan gives every prompt token to exactly one window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from harness.engines.scorer import ScoringConfig
from harness.errors import ConfigError
from harness.schema.prompts import Span

T = TypeVar("T")

GUIDE_CONTEXT = 8192  # the guide's SP_SPEC_CTX
_GUIDE_BYTES = 500 * 2**20  # of attention that it lets one layer hold
_GUIDE_LEAST, _GUIDE_ROOM, _GUIDE_RESERVE = 512, 512, 128
TAIL_TOKENS = 128  # tail where the last segment's length is unknown


@dataclass(frozen=True, slots=True)
class Window:
    """One run of the speculator.

    Attributes
    ----------
    spans
        Prompt spans that make up the window, in prompt order; its tokens are renumbered 0, 1, ….
    contributes
        Prompt spans that this window scores; each lies inside one of ``spans``.
    """

    spans: tuple[Span, ...]
    contributes: tuple[Span, ...]

    def __len__(self) -> int:
        return sum(stop - start for start, stop in self.spans)

    def tokens(self, prompt: Sequence[T]) -> list[T]:
        """Return the window's tokens out of the prompt's."""
        return [token for start, stop in self.spans for token in prompt[start:stop]]

    def local(self, span: Span) -> slice:
        """Return where a prompt span stands inside the window."""
        offset = 0
        for start, stop in self.spans:
            if start <= span.start and span.stop <= stop:
                first = offset + span.start - start
                return slice(first, first + span.stop - span.start)
            offset += stop - start
        raise ValueError(f"{span} is not in the window {self.spans}")


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """Windows whose contributions cover the prompt exactly once (checked on construction).

    ``anchor`` are the prompt spans that all windows share: BOS and tail under ``prompt_tail``,
    nothing otherwise. The last window is the one that decodes the look-ahead tokens.
    """

    length: int
    windows: tuple[Window, ...]
    anchor: tuple[Span, ...] = ()

    def __post_init__(self) -> None:
        covered = 0
        for start, stop in sorted(s for w in self.windows for s in w.contributes):
            if start != covered or stop <= start:
                raise AssertionError(f"window plan covers token {min(start, covered)} not once")
            covered = stop
        if covered != self.length:
            raise AssertionError(f"window plan covers {covered} of {self.length} tokens")


def plan_windows(
    length: int,
    max_positions: int,
    config: ScoringConfig,
    *,
    has_bos: bool,
    tail_tokens: int | None = None,
) -> WindowPlan:
    """Cut a prompt of ``length`` tokens for a speculator with ``max_positions`` positions.

    Look-ahead tokens need positions too: a window of W tokens ends, with its N−1 look-ahead
    tokens, inside the range. A prompt that fits is one window.

    Parameters
    ----------
    has_bos
        Whether the prompt's first token is the speculator's start token.
    tail_tokens
        Tokens of the prompt's last segment; None where unknown.

    Raises
    ------
    ConfigError
        ``window`` is beyond the range, or too short for the look-ahead and tail.
    """
    reserve = config.look_ahead - 1
    window = window_length(config, max_positions)
    if window > max_positions:
        raise ConfigError(
            f"window is {window}, beyond the speculator's range of {max_positions} positions"
        )
    if config.window_query == "window_end":
        width = window or max_positions - reserve
        if width + reserve > max_positions:
            raise ConfigError(
                f"a window of {width} and {reserve} look-ahead tokens exceed the speculator's "
                f"range of {max_positions} positions: lower window or look_ahead"
            )
        return WindowPlan(length, _end_windows(length, width))
    width = window or max_positions
    if length + reserve <= width:
        whole = Span(0, length)
        return WindowPlan(length, (Window((whole,), (whole,)),))
    return _tail_plan(length, width, reserve, has_bos=has_bos, tail_tokens=tail_tokens)


def window_length(config: ScoringConfig, max_positions: int) -> int:
    """Length of a window as configured, in tokens; 0 where it is the speculator's range."""
    return guide_window(max_positions) if config.window == "auto" else config.window


def guide_window(max_positions: int) -> int:
    """Return the window that the llama.cpp guide computes for a speculator's range.

    Its context is at most ``SP_SPEC_CTX``; 500 MiB over 32 bytes a key of the context (8 heads of
    float32) bound a window, which is at least 512 tokens and leaves 128 positions free.

    >>> guide_window(32768), guide_window(4096), guide_window(1024)
    (2000, 3584, 512)
    """
    context = min(GUIDE_CONTEXT, max_positions)
    width = min(context - _GUIDE_ROOM, _GUIDE_BYTES // (context * 32))
    return min(max(width, _GUIDE_LEAST), context - _GUIDE_RESERVE)


def tail_length(length: int, width: int, tail_tokens: int | None) -> int:
    """Return |T|: the last segment, or min(128, W/4) where unknown or longer than W/4."""
    if tail_tokens and tail_tokens <= width // 4:
        return min(tail_tokens, length)
    return max(1, min(TAIL_TOKENS, width // 4, length))


def _tail_plan(
    length: int, width: int, reserve: int, *, has_bos: bool, tail_tokens: int | None
) -> WindowPlan:
    """Windows of BOS + up to B body tokens + T, starting every S = ⌊B/2⌋ (``prompt_tail``)."""
    tail = tail_length(length, width, tail_tokens)
    body_max = width - 1 - tail - reserve  # B; the 1 is BOS's place, kept free without one
    stride = body_max // 2
    if stride < 1:
        raise ConfigError(
            f"a window of {width} tokens is too short for {reserve} look-ahead and {tail} tail "
            "tokens: raise window or lower look_ahead"
        )
    start, end = int(has_bos), length - tail
    bos = (Span(0, 1),) if has_bos else ()
    anchor = (*bos, Span(end, length))
    windows: list[Window] = []
    covered = first = start
    while covered < end:
        stop = min(first + body_max, end)
        new = Span(covered, stop)
        contributes = (*bos, new, Span(end, length)) if stop == end else (new,)
        windows.append(Window((*bos, Span(first, stop), Span(end, length)), contributes))
        covered, first = stop, first + stride
    return WindowPlan(length, tuple(windows), anchor)


def _end_windows(length: int, width: int) -> tuple[Window, ...]:
    """Windows of W tokens every S = W/2, each contributing its first S (``window_end``).

    The guide's two published faults are absent: a middle window contributes [0, S), not an
    empty range, and a window that reaches the prompt's end is the last.
    """
    stride = width // 2
    if stride < 1:
        raise ConfigError(f"a window of {width} tokens is too short: at least 2 are needed")
    windows: list[Window] = []
    for start in range(0, length, stride):
        stop = min(start + width, length)
        last = stop == length
        span = Span(start, stop)
        windows.append(Window((span,), (span if last else Span(start, start + stride),)))
        if last:
            break
    return tuple(windows)
