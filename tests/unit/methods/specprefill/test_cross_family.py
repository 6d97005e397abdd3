"""A speculator with another tokenizer: its prompt, and its scores on the target's tokens."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend
from transformers import PreTrainedTokenizerFast

from harness.engines.scorer import Scores
from harness.methods.base import MethodContext
from harness.methods.specprefill import cross_family
from harness.methods.specprefill.config import SpecPrefillConfig
from harness.methods.specprefill.cross_family import (
    TranslationError,
    speculator_tokenizer,
    translate,
)
from harness.methods.specprefill.method import SpecPrefill
from harness.models.tokenizer import Tokenizer
from harness.schema.prompts import Prompt
from harness.schema.receipts import Status

TEXT = "the mill by the river ground the corn of naïve farmers 你好 " * 3


def byte_bpe(size, *control, bos=None, text=TEXT, normalizer=None):
    """Return a byte-level BPE tokenizer trained on ``text``, with control tokens."""
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    if normalizer is not None:
        backend.normalizer = normalizer
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    backend.train_from_iterator([text], trainer)
    backend.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in control])
    more = {} if bos is None else {"bos_token": bos}
    return Tokenizer(PreTrainedTokenizerFast(tokenizer_object=backend, **more))


@pytest.fixture(scope="module")
def target():
    """Return a ChatML tokenizer with merges."""
    return byte_bpe(300, "<|im_start|>", "<|im_end|>", "<|only_here|>")


@pytest.fixture(scope="module")
def bytes_only():
    """Return a speculator's tokenizer of single bytes that shares ChatML."""
    return byte_bpe(256, "<|im_end|>", "<|im_start|>")


def prompt_of(tokenizer, text):
    """Return a prompt of ``text``."""
    return Prompt("p", text, tokenizer.encode(text))


CHAT = "<|im_start|>user\nthe naïve 你好 mill<|only_here|><|im_end|>\n<|im_start|>assistant\n"


def test_shared_control_tokens_travel_and_others_stay_behind(target, bytes_only):
    """ChatML reaches a ChatML speculator under its own ids; a foreign token does not."""
    got = translate(prompt_of(target, CHAT), target, bytes_only)
    assert bytes_only.decode(got.token_ids, skip_special_tokens=False) == CHAT.replace(
        "<|only_here|>", ""
    )
    assert list(got.starts) == sorted(got.starts)
    assert got.starts[0] == 0


def test_scores_land_on_the_targets_tokens(target, bytes_only):
    """A word that the speculator marks is marked in the target's tokens, and no other word."""
    prompt = prompt_of(target, CHAT)
    got = translate(prompt, target, bytes_only)
    word = CHAT.index("mill")
    scores = np.array([float(word <= s < word + 4) for s in got.starts], dtype=np.float32)
    mapped = got.to_target(scores)
    _, offsets = target.encode_with_offsets(CHAT)
    assert mapped.shape == (len(prompt.token_ids),)
    for (start, stop), score, token in zip(offsets, mapped, prompt.token_ids, strict=True):
        inside = max(0, min(stop, word + 4) - max(start, word))
        if not target.decode([token], skip_special_tokens=False).startswith("<|"):
            assert score == pytest.approx(inside / (stop - start))


def test_control_tokens_copy_their_neighbour(target, bytes_only):
    """A control token takes the score before it, at the start the one after it."""
    prompt = prompt_of(target, "<|im_start|>the mill<|only_here|>")
    got = translate(prompt, target, bytes_only)
    mapped = got.to_target(np.arange(len(got.token_ids), dtype=np.float32))
    assert mapped[0] == mapped[1]
    assert mapped[-1] == mapped[-2]


def test_nan_is_not_hidden(target, bytes_only):
    """A score that is not a number reaches the selection."""
    got = translate(prompt_of(target, "the mill"), target, bytes_only)
    scores = np.ones(len(got.token_ids), dtype=np.float32)
    scores[2] = np.nan
    assert np.isnan(got.to_target(scores)).any()


def test_start_token_of_the_speculator_leads(target):
    """A tokenizer that begins texts with BOS does so here, and BOS gives no score away."""
    other = byte_bpe(256, "<s>", bos="<s>")
    from tokenizers.processors import TemplateProcessing

    other.hf.backend_tokenizer.post_processor = TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", other.encode("<s>")[0])]
    )
    prompt = prompt_of(target, "the mill")
    got = translate(prompt, target, other)
    assert other.decode(got.token_ids, skip_special_tokens=False) == "<s>the mill"
    scores = np.arange(len(got.token_ids), dtype=np.float32)
    scores[0] = 1e9
    assert got.to_target(scores).max() < 1e6


def test_a_tokenizer_that_rewrites_text_is_refused(target):
    """Accents stripped by a normalizer leave characters uncovered: unsupported, and why."""
    stripping = byte_bpe(256, normalizer=normalizers.Replace("naïve", ""))
    with pytest.raises(TranslationError, match="no token covers 'n' at character"):
        translate(prompt_of(target, CHAT), target, stripping)


@given(text=st.text(alphabet="the mil\nnaïve 你好🙂<|", max_size=40))
def test_every_target_token_gets_a_score(text):
    """Any text maps: one finite score a token, within the speculator's range."""
    target = byte_bpe_cached(300)
    other = byte_bpe_cached(256)
    prompt = prompt_of(target, text)
    got = translate(prompt, target, other)
    scores = np.linspace(1, 2, len(got.token_ids), dtype=np.float32)
    mapped = got.to_target(scores) if prompt.token_ids else np.ones(0)
    assert len(mapped) == len(prompt.token_ids)
    assert ((mapped >= 1 - 1e-6) & (mapped <= 2 + 1e-6)).all()


_CACHE: dict = {}


def byte_bpe_cached(size):
    """Train once; hypothesis calls often."""
    if size not in _CACHE:
        _CACHE[size] = byte_bpe(size, "<|im_start|>")
    return _CACHE[size]


class ByteSpeculator:
    """Scores the speculator's tokens by their place."""

    max_positions = 10_000

    def __init__(self):
        self.asked = []

    def score(self, requests):
        """Later tokens matter more."""
        for request in requests:
            self.asked.append(request)
            row = np.linspace(1, 2, len(request.token_ids), dtype=np.float32)
            yield Scores(request.example_id, np.stack([row] * request.config.look_ahead), ())


@pytest.fixture
def context(target, bytes_only, monkeypatch):
    """Return a context whose speculator has another tokenizer."""
    from harness.methods.specprefill import method as specprefill

    monkeypatch.setattr(specprefill, "speculator_tokenizer", lambda *_: bytes_only)
    return MethodContext(tokenizer=target, scorer=ByteSpeculator(), speculator="other")


def test_the_method_scores_its_tokens_and_keeps_the_targets(target, context):
    """The scorer sees the speculator's ids, the receipt counts both, positions are the target's."""
    prompt = prompt_of(target, "the mill by the river ground the corn " * 4)
    config = SpecPrefillConfig(chunk=4, keep=0.5, always_keep={"first": 0, "last": 0})
    (got,) = SpecPrefill(config).prepare([prompt], context)
    length = len(prompt.token_ids)
    assert len(context.scorer.asked[0].token_ids) == len(prompt.text)
    assert got.positions is not None
    assert got.positions[-1] == length - 1
    assert got.receipt.details["speculator_tokens"] == len(prompt.text)
    assert len(got.positions) == got.receipt.keep_achieved * length


def test_the_targets_template_is_always_kept(target, context):
    """The speculator has not seen it; its chunks stay, whatever the text between them scores."""
    text = "<|im_start|>" + "the mill by the river " * 4 + "<|only_here|>" + "ground the corn " * 20
    prompt = prompt_of(target, text)
    config = SpecPrefillConfig(chunk=4, keep=0.2, always_keep={"first": 0, "last": 0})
    (got,) = SpecPrefill(config).prepare([prompt], context)
    control = target.template_tokens(prompt.token_ids)
    assert len(control) == 2
    assert set(control) <= set(got.positions)
    assert got.receipt.details["forced_chunks"] == 2


def test_the_method_refuses_a_rewriting_tokenizer(target, context, monkeypatch):
    """Unsupported with the reason, no rate achieved, nothing scored."""
    from harness.methods.specprefill import method as specprefill

    stripping = byte_bpe(256, normalizer=normalizers.Replace("mill", ""))
    monkeypatch.setattr(specprefill, "speculator_tokenizer", lambda *_: stripping)
    (got,) = SpecPrefill().prepare([prompt_of(target, "the mill")], context)
    assert got.receipt.status == Status.UNSUPPORTED
    assert "rewrites the text" in got.receipt.reason
    assert got.receipt.keep_achieved is None
    assert got.receipt.kept_spans is None
    assert got.receipt.cost.prefill_tokens is None
    assert context.scorer.asked == []


def test_equal_tokenizers_need_no_translation(tmp_path, target, bytes_only):
    """Folders with the same tokenizer file share it; another one is loaded; a name is neither."""
    for name, tokenizer in (("a", target), ("b", target), ("c", bytes_only)):
        folder = tmp_path / name
        tokenizer.hf.save_pretrained(folder)
        (folder / "config.json").write_text('{"model_type": "llama"}')
        (folder / "model.safetensors").write_bytes(b"")
    cross_family.speculator_tokenizer.cache_clear()
    assert speculator_tokenizer(str(tmp_path / "a"), str(tmp_path / "b")) is None
    other = speculator_tokenizer(str(tmp_path / "a"), str(tmp_path / "c"))
    assert other is not None
    assert other.digest == bytes_only.digest
    assert speculator_tokenizer("", str(tmp_path / "c")) is None
    assert speculator_tokenizer(str(tmp_path), str(tmp_path)) is None  # without looking inside
