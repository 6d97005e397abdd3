"""A tiny model, its tokenizer and prompts: real ones, at no cost."""

from __future__ import annotations

import random
from pathlib import Path

from harness.models.tokenizer import Tokenizer
from harness.schema.prompts import Prompt, Segments, Span

WORDS = (
    *("river", "bridge", "garden", "mayor", "storm", "roof", "people", "water", "year", "old"),
    *("great", "town", "winter", "house", "letter", "stone", "dog", "road", "singer", "market"),
    *("harbour", "lantern", "meadow", "orchard"),
)


def tiny_tokenizer(folder: Path, vocabulary: int = 480) -> Tokenizer:
    """Train a byte-level BPE tokenizer and load it from ``folder``."""
    from tokenizers import ByteLevelBPETokenizer
    from transformers import PreTrainedTokenizerFast

    trainer = ByteLevelBPETokenizer()
    text = " ".join(f"The {a} and the {b}." for a in WORDS for b in WORDS)
    trainer.train_from_iterator(
        [text, "What is the special magic number for blue-cat? It is 73194."],
        vocab_size=vocabulary,
        special_tokens=["<|end|>"],
        show_progress=False,
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=trainer._tokenizer, eos_token="<|end|>", pad_token="<|end|>"
    )
    fast.save_pretrained(folder)
    return Tokenizer.load(str(folder))


def tiny_model(folder: Path, *, seed: int = 0, layers: int = 3, hidden: int = 48) -> None:
    """Write a random Llama with wide weights, whose attention is far from uniform."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=512,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        initializer_range=0.15,
        eos_token_id=0,
        bos_token_id=None,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        LlamaForCausalLM(config).eval().save_pretrained(folder)


def needle_prompt(
    tokenizer: Tokenizer, sentences: int = 60, documents: int = 1, seed: int = 0
) -> Prompt:
    """A made-up haystack with one needle, its question, and every segment marked."""
    draw = random.Random(seed)
    needle = "The special magic number for blue-cat is 73194. "
    texts = []
    for index in range(documents):
        lines = [
            "The " + " ".join(draw.choices(WORDS, k=draw.randint(5, 12))) + ". "
            for _ in range(sentences)
        ]
        if index == documents // 2:
            lines.insert(len(lines) // 2, needle)
        texts.append("".join(lines))
    instruction = "Read the text, then answer."
    text, spans = instruction + "\n\n", []
    for body in texts:
        spans.append(Span(len(text), len(text) + len(body)))
        text += body + "\n\n"
    question = "What is the special magic number for blue-cat?"
    start = len(text) + len("Question: ")
    text += f"Question: {question}\nAnswer:"
    at = text.index(needle.strip())
    segments = Segments(
        instruction=(Span(0, len(instruction)),),
        documents=tuple(spans),
        question=(Span(start, start + len(question)),),
        evidence=(Span(at, at + len(needle.strip())),),
    )
    name = f"needle/{sentences}/{documents}/{seed}"
    return Prompt(name, text, tokenizer.encode(text), segments, question)
