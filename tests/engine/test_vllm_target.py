"""The target in vLLM against plain transformers, float32 (ALGORITHM.md, Identities)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from engine.cases import TOKENS, Case, make_cases
from engine.reference import Reference

from harness.engines.base import Generation, Sampling
from harness.engines.vllm.engine import VllmEngine
from harness.errors import HarnessError
from harness.models.tokenizer import Tokenizer
from harness.schema.prompts import PreparedPair

pytestmark = pytest.mark.engine

GREEDY = Sampling(max_tokens=TOKENS, ignore_eos=True, logprobs=True)
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def cases(smollm2_path) -> list[Case]:
    """Eight prompts with their kept tokens."""
    return make_cases(Tokenizer.load(str(smollm2_path)))


@pytest.fixture(scope="module")
def expected(cases, reference: Reference) -> dict[str, tuple[list[int], list[float]]]:
    """Tokens and log probabilities of every case's sparse prompt."""
    return {
        case.name: reference.generate(
            case.prepared().token_ids, case.kept, len(case.tokens), TOKENS
        )
        for case in cases
    }


def same(generation: Generation, tokens: list[int], logprobs: list[float]) -> bool:
    """Whether tokens are equal and log probabilities close."""
    assert generation.logprobs is not None
    close = max(abs(a - b) for a, b in zip(generation.logprobs, logprobs, strict=True)) <= TOLERANCE
    return list(generation.token_ids) == tokens and close


@contextmanager
def position_edit_dropped(engine: VllmEngine) -> Iterator[None]:
    """Run with the mutation of ALGORITHM.md: positions stay compact."""
    engine._host.rpc("drop_position_edit", True)
    try:
        yield
    finally:
        engine._host.rpc("drop_position_edit", False)


def test_sparse_generation_equals_transformers(vllm_engine, cases, expected):
    """One request at a time, chunked where it is long: same tokens, log probabilities to 1e-4."""
    for case in cases:
        generation = vllm_engine.time_one(case.prepared(), GREEDY)
        assert same(generation, *expected[case.name]), case.name
        assert generation.counters["positions_applied"] >= TOKENS


def test_dropping_the_position_edit_is_noticed(vllm_engine, cases, expected):
    """The mutation fails at least 3 of 8 cases, so the test above can fail."""
    with position_edit_dropped(vllm_engine):
        wrong = [
            case.name
            for case in cases
            if not same(vllm_engine.time_one(case.prepared(), GREEDY), *expected[case.name])
        ]
    assert len(wrong) >= 3


def test_batches_mixed_with_full_requests(vllm_engine, cases, expected):
    """All cases at once, sparse beside full ones: nobody sees another's positions."""
    sparse = [case.prepared() for case in cases]
    full = [case.full(explicit=False) for case in cases[:3]]
    mixed = [sparse[0], full[0], *sparse[1:4], full[1], full[2], *sparse[4:]]
    found = {g.example_id: g for g in vllm_engine.generate(iter(mixed), GREEDY)}
    assert found.keys() == {prompt.example_id for prompt in mixed}
    for case in cases:
        assert same(found[case.name], *expected[case.name]), case.name
    for case in cases[:3]:
        alone = vllm_engine.time_one(case.full(explicit=False), GREEDY)
        beside = found[f"{case.name}-full"]
        assert same(beside, list(alone.token_ids), list(alone.logprobs)), case.name


def test_keeping_everything_equals_full_prefill_bit_for_bit(vllm_engine, cases):
    """Positions 0…M−1 through the hook change nothing, and the counter shows that it ran."""
    for case in cases[:3]:
        explicit = vllm_engine.time_one(case.full(explicit=True), GREEDY)
        plain = vllm_engine.time_one(case.full(explicit=False), GREEDY)
        assert explicit.token_ids == plain.token_ids
        assert explicit.logprobs == plain.logprobs
        assert explicit.counters["positions_applied"] >= TOKENS
        assert "positions_applied" not in plain.counters


def test_preempted_requests_find_their_positions_again(vllm_engine, cases):
    """A batch that outgrows the KV cache is preempted, and its tokens stay the same."""
    sampling = Sampling(max_tokens=100, ignore_eos=True, logprobs=True)
    prompts = [case.full(explicit=True) for case in cases]
    before = vllm_engine._host.rpc("resumed_requests")[0]
    found = {g.example_id: g for g in vllm_engine.generate(iter(prompts), sampling)}
    resumed = vllm_engine._host.rpc("resumed_requests")[0] - before
    assert resumed > 0, "nothing was preempted: the test shows nothing"
    for prompt in prompts[-3:]:
        alone = vllm_engine.time_one(prompt, sampling)
        beside = found[prompt.example_id]
        assert same(beside, list(alone.token_ids), list(alone.logprobs)), prompt.example_id


def test_prefix_cache_never_mixes_positions(vllm_engine, cases, expected):
    """Same tokens at other positions find no block of each other; repeats do find their own."""
    case = cases[-1]
    sparse = case.prepared()
    shifted = replace(sparse, example_id="shifted", positions=tuple(range(len(case.kept))))
    runs = [shifted, sparse, sparse]
    found = [next(iter(vllm_engine.generate([prompt], GREEDY))) for prompt in runs]
    assert same(found[1], *expected[case.name])
    assert same(found[2], *expected[case.name])
    assert found[0].logprobs != found[1].logprobs


def test_continuation_log_likelihood_stands_at_its_original_positions(
    vllm_engine, cases, reference
):
    """Continuations are scored at M, M+1, … after the kept context, in the order asked."""
    pairs, wanted = [], []
    for case in cases[:4]:
        continuation = case.tokens[5:17]
        pairs.append(PreparedPair(case.prepared(), continuation))
        wanted.append(
            reference.continuation_logprobs(
                case.prepared().token_ids, case.kept, len(case.tokens), continuation
            )
        )
    found = list(vllm_engine.loglikelihood(pairs))
    assert [result.example_id for result in found] == [case.name for case in cases[:4]]
    for result, logprobs in zip(found, wanted, strict=True):
        assert result.token_logprobs == pytest.approx(logprobs, abs=TOLERANCE)
        assert result.logprob == pytest.approx(sum(logprobs), abs=1e-3)


def test_sampling_options_are_honoured(vllm_engine, cases):
    """As in the transformers engine: bounds that leave one token, a penalty, end tokens."""
    prompt = cases[0].prepared()

    def tokens(**changes):
        return vllm_engine.time_one(prompt, replace(GREEDY, **changes)).token_ids

    greedy = tokens()
    for bound in ({"top_k": 1}, {"top_p": 1e-6}, {"min_p": 1.0}):
        assert tokens(temperature=1.5, seed=1, **bound) == greedy
    assert tokens(repetition_penalty=1.8) != greedy
    first = greedy.index(greedy[2])
    cut = vllm_engine.time_one(prompt, replace(GREEDY, end_tokens=(greedy[2],)))
    assert cut.token_ids == greedy[: first + 1]
    assert cut.finish_reason == "stop"
    assert tokens(end_tokens=(greedy[0],), min_tokens=1)[0] != greedy[0]


def test_admission_counts_original_positions(vllm_engine, cases):
    """A short sparse request whose answer would leave the range is refused by name."""
    far = replace(cases[0].prepared(), example_id="far", original_length=2290)
    with pytest.raises(HarnessError, match=r"far: 2290 prompt tokens and 24 new ones exceed"):
        vllm_engine.time_one(far, GREEDY)


@pytest.mark.long  # it times
def test_later_tokens_cost_no_more_than_with_full_prefill(vllm_engine, cases):
    """Fewer cached tokens: time per output token is not worse than full prefill's."""

    def per_token(prompt):
        times = vllm_engine.time_one(prompt, GREEDY).token_times_s
        return (times[-1] - times[0]) / (len(times) - 1)

    case = cases[-1]
    full = min(per_token(case.full(explicit=False)) for _ in range(3))
    sparse = min(per_token(case.prepared()) for _ in range(3))
    assert sparse <= 1.25 * full  # a quarter for the noise of a shared machine
