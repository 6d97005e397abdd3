"""The paper repository's snippet on the embedded model: enable_prefill_spec, then plain vLLM."""

from __future__ import annotations

from collections.abc import Iterator

import psutil
import pytest
from engine.cases import make_cases

from harness import disable_prefill_spec, enable_prefill_spec
from harness.errors import ConfigError, EngineRefusedError, UnsupportedError
from harness.models.tokenizer import Tokenizer
from harness.schema.receipts import Status

pytestmark = pytest.mark.engine

CONFIG = """\
keep_strategy: percentage
keep_kwargs:
  chunk: True
  chunk_size: 32
  percentage: 0.3
look_ahead_cnt: 8
pool_kernel_size: 13
min_tokens: 0
"""
# What a model's own generation_config may ask for behind the caller's back.
DEFAULTS = {"repetition_penalty": 1.4, "temperature": 0.0, "max_new_tokens": 12}


@pytest.fixture(scope="module")
def enabled(smollm2_path, tmp_path_factory) -> Iterator[None]:
    """The monkey patch, placed before everything and taken back at the end."""
    path = tmp_path_factory.mktemp("config") / "config_p3_full_lah8.yaml"
    path.write_text(CONFIG)
    enable_prefill_spec(spec_model=str(smollm2_path), spec_config_path=str(path))
    yield
    disable_prefill_spec()


@pytest.fixture(scope="module")
def llm(enabled, smollm2_path):
    """A plain LLM, with the arguments of the snippet that make sense here."""
    from vllm import LLM

    llm = LLM(
        str(smollm2_path),
        enforce_eager=True,
        max_model_len=2304,
        dtype="float32",
        override_generation_config=DEFAULTS,
    )
    yield llm
    llm._specprefill.scorer.close()
    llm.llm_engine.engine_core.shutdown()


@pytest.fixture(scope="module")
def tokenizer(smollm2_path) -> Tokenizer:
    """The model's tokenizer."""
    return Tokenizer.load(str(smollm2_path))


@pytest.fixture(scope="module")
def long_prompt(tokenizer) -> list[int]:
    """A chat prompt of exactly 2,048 tokens."""
    tokens = [token for case in make_cases(tokenizer) for token in case.tokens]
    return (tokens * 2)[:2048]


def test_speculative_decoding_is_refused_before_anything_starts(enabled, smollm2_path):
    """One error that names it, and no process left behind."""
    from vllm import LLM

    before = {child.pid for child in psutil.Process().children(recursive=True)}
    drafter = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3}
    with pytest.raises(EngineRefusedError, match="speculative decoding"):
        LLM(str(smollm2_path), speculative_config=drafter)
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before


def test_overrides_of_the_configuration_are_seen(enabled, smollm2_path):
    """A window that hf_overrides gives to the model is refused like one of its own."""
    from vllm import LLM

    with pytest.raises(EngineRefusedError, match="sliding-window attention of 64"):
        LLM(str(smollm2_path), hf_overrides={"sliding_window": 64})


def test_the_file_s_rate_is_honoured(llm, long_prompt):
    """30 % of 2,048 tokens: 20 of 64 chunks, 640 tokens, 0.3125; nothing is always kept."""
    from vllm import SamplingParams

    params = SamplingParams(temperature=0.0, max_tokens=8, ignore_eos=True)
    (output,) = llm.generate({"prompt_token_ids": long_prompt}, params, use_tqdm=False)
    receipt = output.specprefill
    assert receipt.status is Status.ACTIVE
    assert receipt.keep_requested == 0.3
    assert receipt.details["chunks"] == 64
    assert receipt.details["chunks_kept"] == 20
    assert receipt.cost.prefill_tokens == 640
    assert receipt.keep_achieved == 0.3125
    assert receipt.details["forced_chunks"] == 0
    assert receipt.counters["rows_captured"] == 8
    assert receipt.counters["positions_applied"] == 8
    assert output.prompt_token_ids == long_prompt
    assert len(output.outputs[0].token_ids) == 8


def test_generate_equals_the_reference_on_the_kept_tokens(llm, tokenizer, reference):
    """The tokens are those of transformers on the receipt's spans, in a batch of text prompts."""
    from vllm import SamplingParams

    cases = make_cases(tokenizer)[:3]
    params = SamplingParams(temperature=0.0, max_tokens=12, ignore_eos=True)
    prompts = [{"prompt_token_ids": list(case.tokens)} for case in cases]
    for case, output in zip(cases, llm.generate(prompts, params, use_tqdm=False), strict=True):
        kept = tuple(i for a, b in output.specprefill.kept_spans for i in range(a, b))
        tokens = tuple(case.tokens[i] for i in kept)
        wanted, _ = reference.generate(tokens, kept, len(case.tokens), 12)
        assert list(output.outputs[0].token_ids) == wanted


def test_a_default_repetition_penalty_counts_the_whole_prompt(llm, tokenizer, reference):
    """Pruned, penalized, in a batch: transformers' tokens, dropped tokens being penalized too."""
    cases = make_cases(tokenizer)[:4]
    prompts = [{"prompt_token_ids": list(case.tokens)} for case in cases]
    outputs = llm.generate(prompts, use_tqdm=False)
    blind = 0
    for case, output in zip(cases, outputs, strict=True):
        assert output.specprefill.status is Status.ACTIVE
        found = list(output.outputs[0].token_ids)
        kept = tuple(i for a, b in output.specprefill.kept_spans for i in range(a, b))
        tokens = tuple(case.tokens[i] for i in kept)
        request = tokens, kept, len(case.tokens), len(found)
        wanted, _ = reference.generate(*request, (1.4, case.tokens))
        assert found == wanted
        blind += reference.generate(*request, (1.4, tokens))[0] == wanted
    assert blind < len(cases), "the dropped tokens make no difference: the test shows nothing"


def test_beam_search_is_refused(llm, tokenizer):
    """Its steps are requests with the beam so far: one line, and generate goes on."""
    from vllm.sampling_params import BeamSearchParams

    prompt = {"prompt_token_ids": list(make_cases(tokenizer)[0].tokens)}
    with pytest.raises(UnsupportedError, match="beam_search"):
        llm.beam_search([prompt], BeamSearchParams(beam_width=2, max_tokens=4))


def test_chat_has_receipts_too(llm):
    """``chat`` goes through the same door; default parameters are left alone."""
    from vllm import SamplingParams

    message = {"role": "user", "content": "Name three rivers. " * 40}
    params = SamplingParams(temperature=0.0, max_tokens=4)
    (output,) = llm.chat([message], params, use_tqdm=False)
    assert output.specprefill.status is Status.ACTIVE
    assert params.extra_args is None


def test_a_caller_s_own_positions_are_refused(llm, tokenizer):
    """Only the speculator says where tokens stand; nothing is queued, and the next call runs."""
    from vllm import SamplingParams

    params = SamplingParams(max_tokens=2, extra_args={"specprefill": {"pos": "", "len": 9}})
    tokens = list(make_cases(tokenizer)[0].tokens)
    with pytest.raises(ConfigError, match=r"extra_args\['specprefill'\] .* leave it out"):
        llm.generate({"prompt_token_ids": tokens}, params, use_tqdm=False)
    (output,) = llm.generate({"prompt_token_ids": tokens}, SamplingParams(max_tokens=2))
    assert output.specprefill.status is Status.ACTIVE


def test_ctrl_c_leaves_nothing_for_the_next_call(llm, tokenizer, monkeypatch):
    """An interrupted call's requests are aborted: the next call has its own outputs only."""
    from vllm import SamplingParams

    cases = make_cases(tokenizer)[:3]
    prompts = [{"prompt_token_ids": list(case.tokens)} for case in cases]
    params = SamplingParams(temperature=0.0, max_tokens=60, ignore_eos=True)
    monkeypatch.setattr(llm.llm_engine, "step", _interrupt)
    with pytest.raises(KeyboardInterrupt):
        llm.generate(prompts, params, use_tqdm=False)
    monkeypatch.undo()
    assert not llm.llm_engine.has_unfinished_requests()
    assert llm._specprefill.sent == {}
    (output,) = llm.generate(prompts[0], params, use_tqdm=False)
    assert output.prompt_token_ids == list(cases[0].tokens)
    assert output.specprefill.status is Status.ACTIVE


def _interrupt() -> list[object]:
    raise KeyboardInterrupt


def test_requests_that_cannot_be_pruned_say_so(llm, tokenizer):
    """Prompt log probabilities need the whole prompt: unsupported, prefilled whole."""
    from vllm import SamplingParams

    params = SamplingParams(temperature=0.0, max_tokens=2, prompt_logprobs=0)
    tokens = list(make_cases(tokenizer)[0].tokens)
    (output,) = llm.generate({"prompt_token_ids": tokens}, params, use_tqdm=False)
    assert output.specprefill.status is Status.UNSUPPORTED
    assert "prompt log probabilities" in output.specprefill.reason
    assert len(output.prompt_logprobs) == len(tokens)
