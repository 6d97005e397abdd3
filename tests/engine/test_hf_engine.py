"""The transformers engine: sparse prompts at their original positions, and log-likelihoods."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from engine.cases import TOKENS, make_cases

from harness.engines.base import Engine, EngineSpec, Sampling
from harness.engines.hf.engine import HfEngine
from harness.errors import ConfigError, EngineRefusedError, ModelError
from harness.models.tokenizer import Tokenizer
from harness.schema.prompts import PreparedPair

pytestmark = pytest.mark.engine

GREEDY = Sampling(max_tokens=TOKENS, ignore_eos=True, logprobs=True)


@pytest.fixture(scope="module")
def engine(smollm2_path):
    """The embedded model as target in transformers, float32."""
    with HfEngine.open(EngineSpec("hf", str(smollm2_path), "float32", 2048)) as engine:
        yield engine


@pytest.fixture(scope="module")
def tokenizer(smollm2_path):
    """Its tokenizer."""
    return Tokenizer.load(str(smollm2_path))


@pytest.fixture(scope="module")
def cases(tokenizer):
    """Eight prompts with kept chunks."""
    return make_cases(tokenizer)


def differing(engine, reference, cases, prepare):
    """Count the cases whose tokens or log probabilities are not the reference's."""
    wrong = 0
    for case in cases:
        (got,) = engine.generate([prepare(case)], GREEDY)
        kept = tuple(case.tokens[i] for i in case.kept)
        tokens, logprobs = reference.generate(kept, case.kept, len(case.tokens), TOKENS)
        close = all(abs(a - b) <= 1e-4 for a, b in zip(got.logprobs, logprobs, strict=True))
        wrong += list(got.token_ids) != tokens or not close
    return wrong


def test_it_is_an_engine(engine):
    """The seam's shape, and an identity for the records."""
    assert isinstance(engine, Engine)
    assert engine.identity["engine"] == "hf"
    assert len(engine.identity["model_digest"]) == 64


def test_sparse_generation_equals_the_reference(engine, reference, cases):
    """Same tokens and log probabilities as transformers with explicit positions, eight times."""
    assert differing(engine, reference, cases, lambda case: case.prepared()) == 0


@pytest.mark.long  # the vLLM engine's mutation is in every run
def test_dropping_the_positions_shows(engine, reference, cases):
    """The same check fails where positions are compacted: it can fail."""

    def compacted(case):
        return replace(case.prepared(), positions=None)

    assert differing(engine, reference, cases[:5], compacted) >= 3


def test_keep_one_is_full_prefill_bit_for_bit(engine, cases):
    """Explicit positions 0…M−1 go through the hook and change no bit."""
    full, explicit = engine.generate(
        [cases[0].full(explicit=False), cases[0].full(explicit=True)], GREEDY
    )
    assert full.token_ids == explicit.token_ids
    assert full.logprobs == explicit.logprobs
    assert full.counters["positions_applied"] == 0
    assert explicit.counters["positions_applied"] == TOKENS


def test_first_new_position_is_the_original_length(engine, reference, cases):
    """Continuations are scored at M, M+1, … with their context pruned."""
    case, continuation = cases[1], tuple(cases[2].tokens[40:52])
    (got,) = engine.loglikelihood([PreparedPair(case.prepared(), continuation)])
    kept = tuple(case.tokens[i] for i in case.kept)
    want = reference.continuation_logprobs(kept, case.kept, len(case.tokens), continuation)
    assert got.token_logprobs == pytest.approx(want, abs=1e-4)
    assert got.logprob == pytest.approx(sum(want), abs=1e-3)
    elsewhere = reference.continuation_logprobs(kept, case.kept, len(kept), continuation)
    assert elsewhere != pytest.approx(want, abs=1e-2)


def test_one_prefill_serves_all_continuations_of_a_context(engine, cases):
    """A context's second continuation is scored as if it were the first."""
    context = cases[0].prepared()
    continuations = [cases[i].tokens[30 : 31 + 4 * i] for i in range(1, 4)]
    together = list(engine.loglikelihood(PreparedPair(context, c) for c in continuations))
    for continuation, got in zip(continuations, together, strict=True):
        (alone,) = engine.loglikelihood([PreparedPair(context, continuation)])
        assert got.token_logprobs == pytest.approx(alone.token_logprobs, abs=1e-5)
        assert len(got.token_logprobs) == len(continuation)


def test_greedy_continuation_is_known_as_greedy(engine, cases):
    """What the engine itself would say is greedy; another token is not."""
    prompt = cases[0].prepared()
    (said,) = engine.generate([prompt], Sampling(max_tokens=5, ignore_eos=True))
    good, bad = engine.loglikelihood(
        [
            PreparedPair(prompt, said.token_ids),
            PreparedPair(prompt, (*said.token_ids[:-1], said.token_ids[-1] + 1)),
        ]
    )
    assert good.is_greedy
    assert not bad.is_greedy


def test_stop_string_ends_and_is_cut(engine, cases):
    """Generation ends with the token that completes the stop string; the text ends before it."""
    (plain,) = engine.generate([cases[0].prepared()], GREEDY)
    stop = plain.text[len(plain.text) // 2 :][:3]
    (got,) = engine.generate([cases[0].prepared()], replace(GREEDY, stop=(stop,)))
    assert got.finish_reason == "stop"
    assert got.text == plain.text[: plain.text.index(stop)]
    assert got.token_ids == plain.token_ids[: len(got.token_ids)]
    assert len(got.token_ids) < TOKENS


def test_eos_ends_unless_ignored(engine, tokenizer):
    """The end token ends a generation and is not in its text."""
    text = tokenizer.chat([{"role": "user", "content": "Say only: yes"}])
    prompt = make_cases(tokenizer, 1)[0]._replace(tokens=tokenizer.encode(text))
    prompt = prompt._replace(kept=()).full(explicit=False)
    (got,) = engine.generate([prompt], Sampling(max_tokens=200))
    assert got.finish_reason == "stop"
    assert got.token_ids[-1] == 2
    assert "<|im_end|>" not in got.text
    (long,) = engine.generate(
        [prompt], Sampling(max_tokens=len(got.token_ids) + 3, ignore_eos=True)
    )
    assert len(long.token_ids) == len(got.token_ids) + 3


def test_seeded_sampling_repeats(engine, cases):
    """A seed gives the same tokens again; another seed others."""
    hot = Sampling(max_tokens=12, temperature=1.5, seed=1, ignore_eos=True)
    prompt = cases[0].prepared()
    first, again = (next(engine.generate([prompt], hot)).token_ids for _ in range(2))
    (other,) = engine.generate([prompt], replace(hot, seed=2))
    assert first == again
    assert first != other.token_ids


def test_sampling_options_are_honoured(engine, cases):
    """The likeliest token alone is left at any temperature; a penalty changes greedy text."""
    prompt = cases[0].prepared()
    (greedy,) = engine.generate([prompt], GREEDY)
    for bound in ({"top_k": 1}, {"top_p": 1e-6}, {"min_p": 1.0}):
        hot = replace(GREEDY, temperature=1.5, seed=1, **bound)
        assert next(engine.generate([prompt], hot)).token_ids == greedy.token_ids
    (other,) = engine.generate([prompt], replace(GREEDY, repetition_penalty=1.8))
    assert other.token_ids != greedy.token_ids


def test_end_tokens_end_a_text(engine, cases):
    """A text ends with the token and without its text; it is not drawn before its time."""
    prompt = cases[0].prepared()
    (greedy,) = engine.generate([prompt], GREEDY)
    third = greedy.token_ids[2]
    first = greedy.token_ids.index(third)
    (cut,) = engine.generate([prompt], replace(GREEDY, end_tokens=(third,)))
    assert cut.token_ids == greedy.token_ids[: first + 1]
    assert cut.finish_reason == "stop"
    assert cut.text == engine.tokenizer.decode(cut.token_ids[:-1])
    later = replace(GREEDY, end_tokens=(greedy.token_ids[0],), min_tokens=1)
    (patient,) = engine.generate([prompt], later)
    assert patient.token_ids[0] != greedy.token_ids[0]


def test_times_are_filled_only_when_timed(engine, cases):
    """Times rise, the first is TTFT; a batch's generations carry none."""
    short = Sampling(max_tokens=4, ignore_eos=True)
    timed = engine.time_one(cases[0].prepared(), short)
    assert timed.ttft_s == timed.token_times_s[0] > 0
    assert list(timed.token_times_s) == sorted(timed.token_times_s)
    assert len(timed.token_times_s) == 4
    (plain,) = engine.generate([cases[0].prepared()], short)
    assert plain.ttft_s is None
    assert plain.token_times_s == ()


def test_range_is_checked_in_original_positions(engine, cases):
    """A short sparse prompt of a long original is refused where its positions do not fit."""
    prompt = replace(cases[0].prepared(), original_length=2040)
    with pytest.raises(ConfigError, match=r"2040 prompt tokens and 24 new ones exceed.*2048"):
        list(engine.generate([prompt], GREEDY))


def test_sliding_window_target_is_refused(tmp_path):
    """Refused before anything loads, with the reason."""
    config = {"model_type": "mistral", "sliding_window": 256, "max_position_embeddings": 4096}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(EngineRefusedError, match="sliding-window attention of 256"):
        HfEngine.open(EngineSpec("hf", str(tmp_path)))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"dtype": "int8"}, ConfigError, "unknown dtype 'int8'"),
        ({"options": (("devise", "cpu"),)}, ConfigError, "no option 'devise'"),
        ({"prefill": "magic"}, ConfigError, "no prefill 'magic'"),
        ({"target": "/no/such/folder"}, ModelError, "/no/such/folder"),
    ],
)
def test_bad_specs_are_one_clear_line(smollm2_path, change, error, message):
    """What cannot be opened names the culprit."""
    with pytest.raises(error, match=message):
        HfEngine.open(replace(EngineSpec("hf", str(smollm2_path)), **change))
