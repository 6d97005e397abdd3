"""What ``harness methods`` says."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from harness.cli.method_listing import describe
from harness.methods import METHODS, registry
from harness.methods.llmlingua.method import LlmLingua
from harness.methods.rag import Rag
from harness.methods.registry import missing


def test_methods_and_arms_are_described() -> None:
    """Every method with its knobs, budget and arms; JSON can carry it."""
    found = describe()
    methods, arms = found["methods"], found["arms"]
    assert [m["name"] for m in methods] == list(METHODS)
    assert {row["from"] for row in (*methods, *arms)} == {"built in"}
    assert found["broken"] == []
    by_name = {m["name"]: m for m in json.loads(json.dumps(methods))}
    assert by_name["snapkv"]["improves_ttft"] is False
    assert by_name["rag"]["options"]["order"] == "original"
    assert {"rag-bm25", "rag-bm25-relevance"} <= set(by_name["rag"]["arms"])
    assert {m["method"] for m in arms} == set(METHODS)
    facts = {"needs", "improves_ttft", "budget_kind", "options", "available", "reason"}
    assert all(facts <= set(arm) for arm in arms)
    assert all(facts <= set(method) for method in methods)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is the command that mends it."""
    monkeypatch.setattr(registry, "find_spec", lambda name: None)
    assert missing(LlmLingua()) == "pip install 'specprefill-harness[llmlingua]'"
    assert missing(Rag()) is None


def test_a_missing_model_is_named() -> None:
    """An embedding model that is not here makes its arm unavailable."""
    assert missing(Rag(retriever="dense", model="no/such")) == "no embedding model no/such"
    reason = missing(LlmLingua(variant="llmlingua2", compressor="no/such"))
    assert reason == "no compressor no/such"


def test_listing_loads_no_model_library() -> None:
    """The list is there at once: torch and transformers stay unimported."""
    code = (
        "import sys; from harness.cli.method_listing import describe; describe(); "
        "sys.exit(any(m in sys.modules for m in ('torch', 'transformers', 'vllm')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
