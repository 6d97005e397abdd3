"""A tiny model and its tokenizer for the methods' tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tiny import tiny_model, tiny_tokenizer

from harness.methods.base import MethodContext
from harness.models.tokenizer import Tokenizer


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the tiny model."""
    path = tmp_path_factory.mktemp("tiny")
    tiny_model(path)
    tiny_tokenizer(path)
    return path


@pytest.fixture(scope="session")
def tokenizer(tiny_folder: Path) -> Tokenizer:
    """The tiny model's tokenizer."""
    return Tokenizer.load(str(tiny_folder))


@pytest.fixture
def context(tokenizer: Tokenizer) -> MethodContext:
    """Handles without a scorer."""
    return MethodContext(tokenizer, method_seed=3)


@pytest.fixture(scope="session")
def model(tiny_folder: Path) -> Any:
    """The tiny model, float32."""
    from harness.engines.base import EngineSpec
    from harness.engines.hf.model import load_model

    return load_model(EngineSpec("hf", str(tiny_folder), "float32"))
