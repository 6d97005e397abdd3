"""A speculator without a model, in a process that can really be killed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry

from harness.engines.base import EngineSpec
from harness.engines.fake import FakeScorer
from harness.engines.scorer import ScoreRequest, Scores
from harness.models.embedded import prepare_smollm2
from harness.serving.metrics import Metrics


class ProcessScorer:
    """Scores as the fake scorer does, as long as its process lives.

    ``hang`` makes it wait for ever; ``fail`` is raised in place of an answer.
    """

    def __init__(self) -> None:
        self._fake = FakeScorer(EngineSpec("fake", str(prepare_smollm2())))
        self.process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        self.hang = False
        self.fail: Exception | None = None
        self.waiting = 0
        self.closed = False

    @property
    def max_positions(self) -> int:
        return self._fake.max_positions

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    @property
    def processes(self) -> list[subprocess.Popen[bytes]]:
        return [self.process]

    async def score(self, request: ScoreRequest) -> Scores:
        self.waiting += 1
        try:
            await asyncio.sleep(3600 if self.hang else 0)
        finally:
            self.waiting -= 1
        if self.fail is not None:
            raise self.fail
        return next(iter(self._fake.score([request])))

    async def prefill_seconds(self, token_ids: list[int]) -> float:
        return len(token_ids) * 1e-3

    def close(self) -> None:
        self.closed = True
        self.process.kill()
        self.process.wait()


@pytest.fixture
def metrics() -> Metrics:
    """Metrics of their own."""
    return Metrics(CollectorRegistry())


@pytest.fixture
def scorers() -> Iterator[list[ProcessScorer]]:
    """Every scorer that a test starts; ended with it."""
    started: list[ProcessScorer] = []
    yield started
    for scorer in started:
        scorer.close()
