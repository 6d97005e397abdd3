"""The embedded model is read rightly from GGUF (reports of wrong tokens and repeated output)."""

from __future__ import annotations

import pytest

from harness.models.embedded import prepare_smollm2
from harness.models.padded import prepare_padded
from harness.models.prepared import is_intact
from harness.models.tokenizer import Tokenizer

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def tokenizer():
    """Return the prepared folder's tokenizer."""
    return Tokenizer.load(str(prepare_smollm2()))


def test_control_tokens_have_their_ids(tokenizer):
    """Control tokens are single tokens with GGUF's ids."""
    for index, token in enumerate(("<|endoftext|>", "<|im_start|>", "<|im_end|>")):
        assert tokenizer.encode(token) == (index,)


@pytest.mark.parametrize("text", ["12345", " 12345", "a1b22  333", "x²½7"])
def test_digits_stand_alone(tokenizer, text):
    """No token joins two digits, or a digit with a space or letter."""
    pieces = [tokenizer.decode([i]) for i in tokenizer.encode(text)]
    assert all(piece.isdigit() or not any(c.isdigit() for c in piece) for piece in pieces)
    assert all(len(piece) == 1 for piece in pieces if piece.isdecimal())
    assert "".join(pieces).isascii() is text.isascii()


@pytest.mark.parametrize(
    "text",
    [
        "Hello  world\n\nnaïve 你好 12345",
        "  leading",
        "tab\tand\r\nline  1\n\n\n 2",
        "🙂 <|im_end|> .",
    ],
)
def test_round_trip(tokenizer, text):
    """Decoding the ids of a text gives the text."""
    assert tokenizer.decode(tokenizer.encode(text), skip_special_tokens=False) == text


def test_chat_template_opens_the_turn(tokenizer):
    """The template is there, begins with one start token and opens the assistant's turn."""
    text = tokenizer.chat([{"role": "user", "content": "Hi"}])
    assert text.startswith("<|im_start|>system\n")
    assert text.endswith("<|im_start|>assistant\n")


def test_weights_know_paris():
    """Greedy text after a known beginning is right and not one repeated token."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = prepare_smollm2()
    model = AutoModelForCausalLM.from_pretrained(folder)
    hf = AutoTokenizer.from_pretrained(folder)
    ids = hf("The capital of France is", return_tensors="pt").input_ids
    new = model.generate(ids, max_new_tokens=8, do_sample=False)[0, ids.shape[1] :]
    assert model.dtype == torch.bfloat16
    assert "Paris" in hf.decode(new)
    assert len(set(new.tolist())) > 2


def test_padded_target_has_the_same_logits():
    """Depth padding of the real model changes no bit of the logits."""
    import torch
    from transformers import AutoModelForCausalLM

    ids = torch.randint(17, 49152, (1, 96), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        logits = [
            AutoModelForCausalLM.from_pretrained(folder)(ids).logits
            for folder in (prepare_smollm2(), prepare_padded())
        ]
    assert torch.equal(*logits)


def test_damaged_folder_is_rebuilt():
    """A damaged tokenizer file of the real folder is found and mended."""
    folder = prepare_smollm2()
    config = folder / "tokenizer_config.json"
    good = config.read_bytes()
    config.unlink()  # a new inode: the padded folder links the old one
    config.write_bytes(good.replace(b"im_end", b"im_bad"))
    assert not is_intact(folder)
    assert prepare_smollm2() == folder
    assert config.read_bytes() == good
