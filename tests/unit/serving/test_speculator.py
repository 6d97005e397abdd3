import asyncio
import time
from contextlib import asynccontextmanager

import pytest
from unit.serving.conftest import ProcessScorer

from harness.engines.scorer import ScoreRequest, ScoringConfig
from harness.errors import ConfigError
from harness.serving.speculator import Speculator, SpeculatorUnavailableError

REQUEST = ScoreRequest("r", tuple(range(40)), ScoringConfig(look_ahead=2))


@asynccontextmanager
async def opened(scorers, metrics, *, timeout_s=5.0, broken=0):
    """A speculator whose every start makes a scorer; start number ``broken`` fails."""
    starts = 0

    def start():
        nonlocal starts
        starts += 1
        if starts == broken:
            raise ConfigError("no memory")
        scorers.append(ProcessScorer())
        return scorers[-1]

    speculator = Speculator(start, timeout_s, metrics)
    await speculator.open()
    try:
        yield speculator
    finally:
        speculator.close()


async def eventually(condition, seconds=6.0):
    """Wait until a condition holds."""
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit
        await asyncio.sleep(0.02)


def value(metrics, name):
    """A gauge's or counter's value."""
    return getattr(metrics, name)._value.get()


def test_scores_come_from_the_scorer(scorers, metrics):
    """The ordinary case; the queue is empty before and after."""

    async def run():
        async with opened(scorers, metrics) as speculator:
            assert speculator.up
            scores = await speculator.score(REQUEST)
            assert scores.rows.shape[1] == 40
            assert value(metrics, "queue") == 0
            assert value(metrics, "up") == 1

    asyncio.run(run())
    assert value(metrics, "up") == 0
    assert scorers[0].closed


def test_a_killed_scorer_is_away_then_back(scorers, metrics):
    """While it is gone prompts are told so at once; then another has taken its place."""

    async def run():
        async with opened(scorers, metrics) as speculator:
            scorers[0].process.kill()
            await eventually(lambda: not speculator.up)
            began = time.monotonic()
            with pytest.raises(SpeculatorUnavailableError, match="restarting"):
                await speculator.score(REQUEST)
            assert time.monotonic() - began < 0.5
            await eventually(lambda: speculator.up)
            assert len(scorers) == 2
            assert scorers[0].closed
            await speculator.score(REQUEST)
            assert value(metrics, "restarts") == 1

    asyncio.run(run())


def test_a_start_that_fails_is_tried_again(scorers, metrics):
    """The second start fails, the third does not."""

    async def run():
        async with opened(scorers, metrics, broken=2) as speculator:
            scorers[0].process.kill()
            await eventually(lambda: len(scorers) == 2 and speculator.up)
            assert value(metrics, "restarts") == 2

    asyncio.run(run())


def test_a_scorer_that_hangs_is_killed_and_replaced(scorers, metrics):
    """No answer to anybody within the time-out: the process ends, a new one answers."""

    async def run():
        async with opened(scorers, metrics, timeout_s=0.3) as speculator:
            scorers[0].hang = True
            with pytest.raises(SpeculatorUnavailableError, match=r"within 0\.3 s"):
                await speculator.score(REQUEST)
            assert scorers[0].waiting == 0
            await eventually(lambda: len(scorers) == 2 and speculator.up)
            await speculator.score(REQUEST)

    asyncio.run(run())


def test_one_slow_prompt_among_answered_ones_kills_nothing(scorers, metrics):
    """Late is not hung where others were answered meanwhile."""

    async def run():
        async with opened(scorers, metrics, timeout_s=0.4) as speculator:
            scorers[0].hang = True
            slow = asyncio.create_task(speculator.score(REQUEST))
            await asyncio.sleep(0.1)
            scorers[0].hang = False
            await speculator.score(REQUEST)
            with pytest.raises(SpeculatorUnavailableError):
                await slow
            assert speculator.up

    asyncio.run(run())


def test_a_prompt_that_cannot_be_scored_says_why(scorers, metrics):
    """The scorer's own fault, and one that is no fault of the prompt."""

    async def run():
        async with opened(scorers, metrics) as speculator:
            scorers[0].fail = ConfigError("the window is too short")
            with pytest.raises(SpeculatorUnavailableError, match="the window is too short"):
                await speculator.score(REQUEST)
            scorers[0].fail = RuntimeError("boom")
            with pytest.raises(SpeculatorUnavailableError, match="failed on this prompt"):
                await speculator.score(REQUEST)

    asyncio.run(run())


def test_a_client_that_leaves_takes_its_prompt_along(scorers, metrics):
    """Cancelling reaches the scorer, and the queue is counted down."""

    async def run():
        async with opened(scorers, metrics) as speculator:
            scorers[0].hang = True
            task = asyncio.create_task(speculator.score(REQUEST))
            await eventually(lambda: scorers[0].waiting == 1)
            assert value(metrics, "queue") == 1
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (scorers[0].waiting, value(metrics, "queue")) == (0, 0)

    asyncio.run(run())
