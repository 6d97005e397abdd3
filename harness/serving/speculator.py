"""The speculator of a server: started, watched, restarted; its loss costs speed, never answers."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from harness.engines.scorer import ScoreRequest, Scores
from harness.engines.vllm.host import kill_tree
from harness.errors import ConfigError, HarnessError
from harness.serving.metrics import Metrics

_WATCH_S = 0.5
_FIRST_PAUSE_S, _LAST_PAUSE_S = 1.0, 60.0  # before a restart; doubled each time one fails

_DIED = "it has died"


class SpeculatorUnavailableError(Exception):
    """There are no scores now; the text is a receipt's reason."""


class AsyncScorer(Protocol):
    """What is supervised: an ``AsyncVllmScorer``, or its stand-in in a test."""

    @property
    def max_positions(self) -> int:
        """The speculator's position range."""

    @property
    def alive(self) -> bool:
        """Whether its processes are there."""

    @property
    def processes(self) -> list[Any]:
        """Its processes, each with a ``pid``."""

    async def score(self, request: ScoreRequest) -> Scores:
        """Score one prompt."""

    async def prefill_seconds(self, token_ids: Sequence[int]) -> float:
        """Seconds of a plain prefill."""

    def close(self) -> None:
        """End it. Idempotent."""


class Speculator:
    """A scorer that may be lost at any time and comes back.

    Parameters
    ----------
    start
        Starts the scorer; runs in a thread.
    timeout_s
        Seconds that a prompt may wait for its scores. Where nothing at all was scored in that
        time the engine hangs: it is killed, and started anew.
    """

    def __init__(
        self, start: Callable[[], AsyncScorer], timeout_s: float, metrics: Metrics
    ) -> None:
        self._start = start
        self._timeout_s = timeout_s
        self._metrics = metrics
        self._scorer: AsyncScorer | None = None
        self._watching: asyncio.Task[None] | None = None
        self._last_answer = time.monotonic()
        self._why = _DIED
        self._closed = False

    async def open(self) -> None:
        """Start the scorer, and watch it from now on.

        Raises
        ------
        Exception
            Whatever the start raises: a server without a speculator is not what was asked for.
        """
        self._taken(await asyncio.to_thread(self._start))
        self._watching = asyncio.create_task(self._watch())

    def _taken(self, scorer: AsyncScorer) -> None:
        self._scorer = scorer
        self._last_answer = time.monotonic()
        self._metrics.up.set(1)

    @property
    def up(self) -> bool:
        """Whether prompts can be scored now."""
        return self._scorer is not None and self._scorer.alive

    @property
    def max_positions(self) -> int | None:
        """The speculator's position range; None while it is away."""
        return None if self._scorer is None else self._scorer.max_positions

    async def score(self, request: ScoreRequest) -> Scores:
        """Score one prompt.

        Raises
        ------
        SpeculatorUnavailableError
            The speculator is away, has died, or has not answered in time.
        """
        scorer = self._scorer
        if scorer is None or not scorer.alive:
            raise SpeculatorUnavailableError(f"the speculator is restarting: {self._why}")
        began = time.monotonic()
        self._metrics.queue.inc()
        try:
            async with asyncio.timeout(self._timeout_s):
                scores = await scorer.score(request)
        except TimeoutError:
            self._late(scorer, began)
            raise SpeculatorUnavailableError(
                f"the speculator gave no scores within {self._timeout_s:g} s"
            ) from None
        except Exception as error:
            raise _unavailable(error, scorer) from error
        finally:
            self._metrics.queue.dec()
        self._last_answer = time.monotonic()
        return scores

    async def prefill_seconds(self, token_ids: Sequence[int]) -> float:
        """Seconds of a plain prefill, for the break-even guard."""
        assert self._scorer is not None  # measured right after the start
        return await self._scorer.prefill_seconds(token_ids)

    def _late(self, scorer: AsyncScorer, began: float) -> None:
        """Kill an engine that has answered nobody since ``began``: it hangs."""
        if scorer is self._scorer and self._last_answer < began:
            self._why = f"it gave no scores for {self._timeout_s:g} s"
            _kill(scorer)

    async def _watch(self) -> None:
        """Start the scorer anew whenever it has died."""
        pause = _FIRST_PAUSE_S
        while not self._closed:
            await asyncio.sleep(_WATCH_S)
            scorer = self._scorer
            if scorer is not None and scorer.alive:
                continue
            self._metrics.up.set(0)
            if scorer is not None:
                self._scorer = None
                _say(f"the speculator is gone ({self._why}): full prefill until it is back")
                with contextlib.suppress(Exception):
                    await asyncio.to_thread(scorer.close)
            self._metrics.restarts.inc()
            try:
                self._taken(await asyncio.to_thread(self._start))
            except Exception as error:
                self._why = f"it does not start: {' '.join(str(error).split())}"
                _say(f"the speculator does not start, next try in {pause:g} s: {error}")
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LAST_PAUSE_S)
            else:
                pause, self._why = _FIRST_PAUSE_S, _DIED
                _say("the speculator is back")

    def close(self) -> None:
        """End the scorer, from any thread. Idempotent."""
        self._closed = True
        if self._watching is not None:
            self._watching.get_loop().call_soon_threadsafe(self._watching.cancel)
            self._watching = None
        scorer, self._scorer = self._scorer, None
        self._metrics.up.set(0)
        if scorer is not None:
            scorer.close()


def _unavailable(error: Exception, scorer: AsyncScorer) -> Exception:
    """What a failed pass means for its request: no scores, or a request that was wrong."""
    from vllm.exceptions import VLLMClientError

    if isinstance(error, VLLMClientError | ConfigError):
        return SpeculatorUnavailableError(f"the speculator cannot score this prompt: {error}")
    if isinstance(error, HarnessError):
        return SpeculatorUnavailableError(str(error))
    state = "failed on this prompt" if scorer.alive else "died while it scored"
    return SpeculatorUnavailableError(f"the speculator {state}")


def _kill(scorer: AsyncScorer) -> None:
    """End a scorer's processes at once; what hangs does not listen to anything milder."""
    for process in scorer.processes:
        if process.pid is not None:
            kill_tree(process.pid)


def _say(line: str) -> None:
    print(f"harness: {line}", file=sys.stderr, flush=True)
