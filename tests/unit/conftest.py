"""Two tokenizers of different make, for everything that counts tokens."""

from __future__ import annotations

import pytest

from harness.models.embedded import prepare_smollm2
from harness.tokenizer import Tokenizer

TOKENIZERS = ("smollm2", "metaspace")


@pytest.fixture(scope="session")
def smollm2() -> Tokenizer:
    """The embedded model's: byte-level BPE, digits one by one, a chat template."""
    return Tokenizer.load(str(prepare_smollm2()))


@pytest.fixture(scope="session")
def metaspace(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """One as Llama 2's: SentencePiece-like, a start token of its own, no chat template."""
    from tokenizers import Tokenizer as Fast
    from tokenizers import decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    from harness.data.essays import load_essays

    fast = Fast(models.BPE(byte_fallback=True))
    fast.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
    fast.decoder = decoders.Sequence([decoders.Metaspace(), decoders.ByteFallback()])
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=1500, special_tokens=special, show_progress=False)
    sentences = load_essays().sentences
    fast.train_from_iterator([*sentences, "0 1 2 3 4 5 6 7 8 9 One of the special"], trainer)
    fast.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    folder = tmp_path_factory.mktemp("metaspace")
    PreTrainedTokenizerFast(
        tokenizer_object=fast, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(folder)
    return Tokenizer.load(str(folder))


@pytest.fixture(params=TOKENIZERS)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    """Each tokenizer in turn."""
    found: Tokenizer = request.getfixturevalue(request.param)
    return found
