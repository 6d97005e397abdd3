"""MInference behind vLLM's CPU attention backend, against the transformers engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tiny import needle_prompt, tiny_model, tiny_tokenizer

from harness.engines.base import EngineSpec, Generation, LogLikelihood, Sampling
from harness.engines.hf.engine import HfEngine
from harness.engines.vllm.engine import VllmEngine
from harness.errors import ConfigError
from harness.methods.base import MethodContext
from harness.methods.full import Full
from harness.methods.minference import MInference
from harness.models.tokenizer import Tokenizer
from harness.schema.prompts import PreparedPair, PreparedPrompt, Prompt

pytestmark = pytest.mark.engine

SAMPLING = Sampling(max_tokens=12, ignore_eos=True, logprobs=True)
BASE = "float32", 1536
PATTERNS = ("vertical_slash", "a_shape", "block_sparse")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small random model whose heads vLLM's CPU attention takes."""
    folder = tmp_path_factory.mktemp("minference")
    tiny_tokenizer(folder)
    tiny_model(folder, hidden=256)
    return folder


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Tokenizer:
    """Its tokenizer."""
    return Tokenizer.load(str(folder))


@pytest.fixture(scope="module")
def prompts(tokenizer: Tokenizer) -> list[Prompt]:
    """Three prompts of different lengths."""
    return [needle_prompt(tokenizer, count, seed=count) for count in (12, 25, 31)]


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[VllmEngine]:
    """The model in vLLM, started as the method asks for it."""
    base = EngineSpec("vllm", str(folder), *BASE)
    with VllmEngine.open(MInference().engine_spec(base)) as engine:
        yield engine


@pytest.fixture(scope="module")
def reference(folder: Path) -> HfEngine:
    """The model in transformers."""
    base = EngineSpec("vllm", str(folder), *BASE)
    return HfEngine.open(MInference(engine="hf").engine_spec(base))


@pytest.fixture(scope="module")
def context(tokenizer: Tokenizer) -> MethodContext:
    """What a method may use; MInference needs the tokenizer only."""
    return MethodContext(
        tokenizer=tokenizer,
        scorer=None,
        speculator="",
        max_positions=BASE[1],
        max_tokens=SAMPLING.max_tokens,
        method_seed=0,
        rates=None,
    )


def prepare(method: MInference | Full, prompts: list[Prompt], context: MethodContext):
    """Prepared prompts of a method."""
    return list(method.prepare(prompts, context))


def run(engine: VllmEngine | HfEngine, prompts: list[PreparedPrompt]) -> list[Generation]:
    """Generations in the order of the prompts."""
    found = {g.example_id: g for g in engine.generate(prompts, SAMPLING)}
    return [found[prompt.example_id] for prompt in prompts]


def same(one: Generation, other: Generation) -> None:
    """Equal tokens, log probabilities to 1e-4."""
    assert one.token_ids == other.token_ids
    assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_it_does_what_the_transformers_engine_does(
    engine: VllmEngine,
    reference: HfEngine,
    prompts: list[Prompt],
    context: MethodContext,
    pattern: str,
) -> None:
    """Same tokens, log probabilities and achieved share for every pattern, in a batch."""
    prepared = prepare(MInference(keep=0.3, pattern=pattern), prompts, context)
    dense = run(engine, prepare(Full(), prompts, context))
    for ours, theirs, full in zip(
        run(engine, prepared), run(reference, prepared), dense, strict=True
    ):
        same(ours, theirs)
        assert ours.logprobs != pytest.approx(full.logprobs, abs=1e-3)
        assert ours.counters == {"sparse_layers": 3}
        assert ours.receipt is not None
        assert theirs.receipt is not None
        assert ours.receipt.keep_achieved == pytest.approx(theirs.receipt.keep_achieved)
        assert ours.receipt.details == {"pattern": pattern, "kernel": "reference kernel"}
        assert ours.receipt.cost == theirs.receipt.cost


def test_keeping_every_block_is_dense_attention(
    engine: VllmEngine, reference: HfEngine, prompts: list[Prompt], context: MethodContext
) -> None:
    """At keep 1 the answers are full prefill's, on this engine and in transformers."""
    whole = run(engine, prepare(MInference(keep=1.0), prompts, context))
    full = prepare(Full(), prompts, context)
    for ours, here, there in zip(whole, run(engine, full), run(reference, full), strict=True):
        same(ours, here)
        same(ours, there)


def test_a_batch_of_both_is_each_alone(
    engine: VllmEngine, prompts: list[Prompt], context: MethodContext
) -> None:
    """Full and sparse prompts share steps without touching each other; timing alone agrees."""
    sparse = prepare(MInference(keep=0.2), prompts[:2], context)
    mixed = [*sparse, *prepare(Full(), prompts[2:], context)]
    for prompt, together in zip(mixed, run(engine, mixed), strict=True):
        alone = engine.time_one(prompt, SAMPLING)
        same(together, alone)
        assert alone.ttft_s


def test_continuations_attend_densely(
    engine: VllmEngine, reference: HfEngine, prompts: list[Prompt], context: MethodContext
) -> None:
    """A scored continuation sees the sparse prompt's keys and each of its own."""
    (prepared, *_) = prepare(MInference(keep=0.2), prompts, context)
    pairs = [PreparedPair(prepared, ids) for ids in ((5, 9, 11), (7,))]
    found: list[list[LogLikelihood]] = [list(e.loglikelihood(pairs)) for e in (engine, reference)]
    for ours, theirs in zip(*found, strict=True):
        assert ours.token_logprobs == pytest.approx(theirs.token_logprobs, abs=1e-4)
        assert ours.receipt is not None
        assert ours.receipt.keep_achieved


def test_published_patterns_and_prompts_of_one_token(
    engine: VllmEngine,
    reference: HfEngine,
    prompts: list[Prompt],
    context: MethodContext,
    tmp_path: Path,
) -> None:
    """A per-head file gives what it gives in transformers; the shortest prompt runs, too."""
    heads = (["vertical_and_slash", 60, 90, 1.0], ["stream_llm", 8, 64, 1.0]) * 2
    layer = {str(number): head for number, head in enumerate(heads)}
    (tmp_path / "patterns.json").write_text(json.dumps([layer] * 3))
    method = MInference(pattern_file=str(tmp_path / "patterns.json"), block=32)
    short = replace(prompts[0], text="a", token_ids=(7,), segments=None)
    prepared = prepare(method, [*prompts[1:], short], context)
    for ours, theirs in zip(run(engine, prepared), run(reference, prepared), strict=True):
        same(ours, theirs)
        assert ours.receipt is not None
        assert ours.receipt.details["pattern"] == "published"


def test_a_pattern_file_for_another_model_is_refused(
    engine: VllmEngine, prompts: list[Prompt], context: MethodContext, tmp_path: Path
) -> None:
    """The fault names both models' sizes, and the engine goes on."""
    (tmp_path / "p.json").write_text(json.dumps([{"0": ["stream_llm", 8, 64, 1.0]}] * 5))
    prepared = prepare(MInference(pattern_file=str(tmp_path / "p.json")), prompts[:1], context)
    with pytest.raises(ConfigError, match="5 layers of 1 heads, the target has 3 of 4"):
        run(engine, prepared)
    assert run(engine, prepare(Full(), prompts[:1], context))


def test_a_prompt_in_parts_is_noticed() -> None:
    """The worker fails rather than attend to half a prompt; what follows a prompt is no part."""
    worker = pytest.importorskip("harness.methods.minference.vllm_step")
    job, step = worker._Job({"length": 10}), worker._Step()
    step.describe([None, job, job, job], [0, 0, 10, 0], [5, 10, 1, 12])
    assert [(span.start, span.stop) for span in step.spans] == [(5, 15), (16, 28)]
    assert step.has_others
    for computed, scheduled in ((0, 9), (4, 6), (9, 1)):
        with pytest.raises(RuntimeError, match="whole prompt in one step"):
            step.describe([job], [computed], [scheduled])


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        (("chunked_prefill", True), "chunked_prefill is on"),
        (("prefix_caching", True), "prefix_caching is on"),
        (("tensor_parallel", 2), "tensor_parallel is above 1"),
        (("max_num_batched_tokens", 512), "max_num_batched_tokens is below max_model_len"),
    ],
)
def test_it_refuses_prompts_in_parts(folder: Path, option: tuple[str, object], reason: str) -> None:
    """Nothing starts under options that would split a prompt or take its keys from a cache."""
    base = EngineSpec("vllm", str(folder), *BASE, options=(option,))
    with pytest.raises(ConfigError, match=reason):
        VllmEngine.open(MInference().engine_spec(base))
