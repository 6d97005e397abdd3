"""Methods on the embedded model: what they keep decides what the model can answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from harness.engines.base import EngineSpec
from harness.engines.hf.engine import HfEngine
from harness.methods.arms import build_method
from harness.methods.base import MethodContext
from harness.methods.specprefill.hf_scorer import HfScorer
from harness.models.tokenizer import Tokenizer
from harness.tasks.catalogue import resolve
from harness.tasks.examples import TaskExamples, load_examples

pytestmark = pytest.mark.engine

LENGTH, EXAMPLES, KEEP = 1536, 6, 0.1


@pytest.fixture(scope="module")
def spec(smollm2_path: Path) -> EngineSpec:
    """The embedded model in transformers, float32."""
    return EngineSpec("hf", str(smollm2_path), "float32", 4096)


@pytest.fixture(scope="module")
def engine(spec: EngineSpec) -> Iterator[HfEngine]:
    """The target."""
    with HfEngine.open(spec) as opened:
        yield opened


@pytest.fixture(scope="module")
def context(spec: EngineSpec) -> Iterator[MethodContext]:
    """The same model as its own speculator."""
    with closing(HfScorer.open(spec)) as scorer:
        yield MethodContext(Tokenizer.load(spec.target), scorer, spec.target, max_positions=4096)


def mean_score(
    name: str, examples: TaskExamples, engine: HfEngine, context: MethodContext
) -> float:
    """Mean task score of a method at the keep rate."""
    method = build_method(name, {"keep": KEEP})
    by_id = {e.record.example_id: e for e in examples.examples}
    prepared = method.prepare([e.prompt for e in examples.examples], context)
    # The answer comes first; what follows it cannot lower the score.
    sampling = replace(examples.examples[0].sampling, max_tokens=24)
    scores = [
        next(iter(examples.score(by_id[g.example_id], g.text).values()))
        for g in engine.generate(prepared, sampling)
    ]
    return sum(scores) / len(scores)


@pytest.mark.parametrize(
    "task", ["ruler_niah_single_1", pytest.param("ruler_niah_single_2", marks=pytest.mark.long)]
)
def test_oracle_specprefill_random(task: str, engine: HfEngine, context: MethodContext) -> None:
    """At a tenth of the tokens: oracle ≥ SpecPrefill ≥ random, with SpecPrefill far above it."""
    (info,) = resolve([task])
    examples = load_examples(
        info,
        length=LENGTH,
        seed=11,
        limit=EXAMPLES,
        tokenizer=context.tokenizer,
        max_positions=4096,
    )
    score = {
        name: mean_score(name, examples, engine, context)
        for name in ("oracle", "specprefill", "random")
    }
    assert score["oracle"] >= score["specprefill"] >= score["random"], score
    assert score["specprefill"] >= score["random"] + 0.5, score
