"""What the contract's tests stand on: a tiny model on transformers, prompts, and one way to run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from harness.engines.base import Engine, EngineSpec, Generation, Sampling
from harness.engines.registry import open_engine
from harness.methods.base import Method, MethodContext
from harness.methods.contract.tiny import needle_prompt, tiny_model, tiny_tokenizer
from harness.methods.options import build, defaults_of
from harness.methods.registry import method_class, missing
from harness.methods.specprefill.hf_scorer import HfScorer
from harness.models.tokenizer import Tokenizer
from harness.schema.prompts import PreparedPrompt, Prompt, Segments, Span
from harness.schema.receipts import Receipt

SAMPLING = Sampling(max_tokens=6, logprobs=True, ignore_eos=True)

_OPEN: dict[EngineSpec, Engine] = {}

Ran = tuple[PreparedPrompt, Generation, Receipt]
"""What went to the engine, what came out, and the receipt as the engine completed it."""


@pytest.fixture(scope="module", autouse=True)
def engines() -> Iterator[None]:
    """Engines are opened once for each spec, and closed at the end."""
    yield
    while _OPEN:
        _OPEN.popitem()[1].close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with its tokenizer."""
    path = tmp_path_factory.mktemp("tiny")
    tiny_model(path)
    tiny_tokenizer(path)
    return path


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Tokenizer:
    """The tiny model's tokenizer."""
    return Tokenizer.load(str(folder))


@pytest.fixture(scope="module")
def base(folder: Path) -> EngineSpec:
    """The tiny model in float32."""
    return EngineSpec("hf", str(folder), "float32", 4096)


@pytest.fixture(scope="module")
def context(tokenizer: Tokenizer, folder: Path, base: EngineSpec) -> Iterator[MethodContext]:
    """Handles as the runner makes them, with the model as its own speculator."""
    with closing(HfScorer.open(base)) as scorer:
        yield MethodContext(tokenizer, scorer, str(folder), max_positions=4096, method_seed=7)


@pytest.fixture(scope="module")
def prompts(tokenizer: Tokenizer) -> list[Prompt]:
    """Three haystacks of several documents."""
    return [needle_prompt(tokenizer, 9, documents=4, seed=seed) for seed in range(3)]


def method_of(name: str, **options: object) -> Method:
    """Build a method; skip where what it needs is not on this machine."""
    method = build(method_class(name), options)
    lacks = missing(method)
    if lacks is not None:
        pytest.skip(f"{name} lacks: {lacks}")
    return method


def at_half(name: str) -> Mapping[str, Any]:
    """Options that keep half, of a method that has such a knob."""
    return {"keep": 0.5} if "keep" in defaults_of(method_class(name)) else {}


def engine_of(method: Method, base: EngineSpec) -> Engine:
    """Return the engine that a method asks for; engines stay open over a module."""
    spec = method.engine_spec(base)
    if spec not in _OPEN:
        _OPEN[spec] = open_engine(spec)
    return _OPEN[spec]


def run(
    method: Method, prompts: Sequence[Prompt], context: MethodContext, base: EngineSpec
) -> list[Ran]:
    """Prepare with nothing remembered, and generate."""
    prepared = list(method.prepare(prompts, context.cold()))
    assert len(prepared) == len(prompts), "prepare yields one prepared prompt for each prompt"
    outputs = list(engine_of(method, base).generate(prepared, SAMPLING))
    return [(p, g, g.receipt or p.receipt) for p, g in zip(prepared, outputs, strict=True)]


def unicode_prompt(tokenizer: Tokenizer) -> Prompt:
    """Several scripts and an empty document."""
    documents = ["", "Der Müller wohnt in Köln. 你好，世界。磨坊在河边。", "😀 naïve — «да»! " * 8]
    text, spans = "Read.\n\n", []
    for body in documents:
        spans.append(Span(len(text), len(text) + len(body)))
        text += body + "\n"
    question = "Où est le moulin 磨坊?"
    start = len(text)
    text += question
    at = text.index("磨坊在河边")
    segments = Segments(
        instruction=(Span(0, 5),),
        documents=tuple(spans),
        question=(Span(start, len(text)),),
        evidence=(Span(at, at + 5),),
    )
    return Prompt("unicode", text, tokenizer.encode(text), segments, question)


def short_prompt(tokenizer: Tokenizer) -> Prompt:
    """Fewer tokens than one chunk."""
    text = "A mill.\nWhere?"
    segments = Segments(documents=(Span(0, 7),), question=(Span(8, 14),), evidence=(Span(2, 6),))
    return Prompt("short", text, tokenizer.encode(text), segments, "Where?")
