"""Each test is run for each method that ``--method`` names, else for every built-in one."""

from __future__ import annotations

import pytest

from harness.methods import METHODS
from harness.methods.contract.bench import base, context, engines, folder, prompts, tokenizer

__all__ = ["base", "context", "engines", "folder", "prompts", "tokenizer"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give ``name`` its values."""
    if "name" in metafunc.fixturenames and metafunc.module.__name__.endswith("test_method"):
        asked = metafunc.config.getoption("--method", default=[])
        metafunc.parametrize("name", asked or list(METHODS))
