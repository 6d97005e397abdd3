"""The example of docs/adding-a-method.md is code that runs."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest
from tiny import needle_prompt

from harness.methods.base import Method, MethodContext
from harness.schema.receipts import Status


def test_the_documented_example_is_a_method(
    context: MethodContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It builds, satisfies the protocol, and keeps the last chunk and every tenth before it."""
    page = Path(__file__).parents[3] / "docs" / "adding-a-method.md"
    found = re.search(r"```python\n(\"\"\"Every n-th.*?)```", page.read_text("utf-8"), re.DOTALL)
    assert found
    (tmp_path / "every_nth.py").write_text(found[1], encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    method = import_module("every_nth").EveryNth()
    assert isinstance(method, Method)
    prompt = needle_prompt(context.tokenizer, 60)
    (prepared,) = method.prepare([prompt], context)
    assert prepared.receipt.status is Status.ACTIVE
    assert prepared.positions[-1] == len(prompt.token_ids) - 1
    assert prepared.receipt.keep_achieved < 0.15
