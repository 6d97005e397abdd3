"""Two tokenizers of different make, for everything that counts tokens."""

from __future__ import annotations

import pytest
from tiny import metaspace_tokenizer

from harness.models.embedded import prepare_smollm2
from harness.models.tokenizer import Tokenizer

TOKENIZERS = ("smollm2", "metaspace")


@pytest.fixture(scope="session")
def smollm2() -> Tokenizer:
    """The embedded model's: byte-level BPE, digits one by one, a chat template."""
    return Tokenizer.load(str(prepare_smollm2()))


@pytest.fixture(scope="session")
def metaspace(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """One as Llama 2's: SentencePiece-like, a start token of its own, no chat template."""
    return metaspace_tokenizer(tmp_path_factory.mktemp("metaspace"))


@pytest.fixture(params=TOKENIZERS)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    """Each tokenizer in turn."""
    found: Tokenizer = request.getfixturevalue(request.param)
    return found
