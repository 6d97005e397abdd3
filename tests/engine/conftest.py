"""One target and one speculator for all engine tests, started on first use, ended in any case."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from engine.reference import Reference

from harness.engines.base import EngineSpec
from harness.engines.vllm.engine import VllmEngine
from harness.methods.specprefill.vllm.scorer import VllmScorer
from harness.models.embedded import prepare_smollm2

MAX_MODEL_LEN = 2304  # RULER at 2,048 tokens and its answer
ENGINE_OPTIONS = (
    # Small on purpose: longer prompts are prefilled in chunks, and a full batch is preempted.
    ("kv_tokens", 2432),
    ("max_num_batched_tokens", 512),
    # The target's own worker, with a switch that drops the position edit.
    ("worker_cls", "engine.mutants.SwitchableTargetWorker"),
)


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """Folder of the embedded model."""
    return prepare_smollm2()


@pytest.fixture(scope="session")
def vllm_engine(smollm2_path: Path) -> Iterator[VllmEngine]:
    """The embedded model as target, float32."""
    spec = EngineSpec("vllm", str(smollm2_path), "float32", MAX_MODEL_LEN, options=ENGINE_OPTIONS)
    engine = VllmEngine.open(spec)
    try:
        yield engine
    finally:
        engine.close()


@pytest.fixture(scope="session")
def vllm_scorer(smollm2_path: Path) -> Iterator[VllmScorer]:
    """The embedded model as speculator, float32."""
    options = (("max_num_batched_tokens", 512),)
    spec = EngineSpec("vllm", str(smollm2_path), "float32", MAX_MODEL_LEN, options=options)
    scorer = VllmScorer.open(spec)
    try:
        yield scorer
    finally:
        scorer.close()


@pytest.fixture(scope="session")
def reference(smollm2_path: Path) -> Reference:
    """The same model in plain transformers, float32, eager attention."""
    return Reference(smollm2_path)
