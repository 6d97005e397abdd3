"""LLMLingua-2 keeps the words that its classifier wants, for both published families.

No hub is needed: the classifiers are written here, with weights under which a word's place in a
list decides how much it is wanted.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tiny import WORDS, needle_prompt

from harness.methods.base import MethodContext
from harness.methods.llmlingua.method import TOLERANCE, LlmLingua
from harness.models.tokenizer import Tokenizer
from harness.schema.receipts import Status

FAMILIES = ("bert", "xlm-roberta")
SIZES = {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64, "num_labels": 2}


def bert_tokens(folder: Path) -> list[str]:
    """Write a WordPiece tokenizer of whole words and single letters; return its tokens."""
    from transformers import BertTokenizerFast

    letters = [chr(c) for c in range(33, 127)]
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokens = [*special, *letters, *(f"##{c}" for c in letters), *WORDS, "The"]
    (folder / "vocab.txt").write_text("\n".join(tokens), encoding="utf-8")
    BertTokenizerFast(str(folder / "vocab.txt"), do_lower_case=False).save_pretrained(folder)
    return tokens


def xlm_roberta_tokens(folder: Path) -> list[str]:
    """Write a Unigram tokenizer with blanks as ▁; return its tokens."""
    from tokenizers import Tokenizer as Fast
    from tokenizers import decoders, models, pre_tokenizers
    from transformers import XLMRobertaTokenizerFast

    letters = [chr(c) for c in range(33, 127)]
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    whole = [*(f"▁{word}" for word in (*WORDS, "The")), "▁"]
    tokens = [*special, *whole, *letters, "<mask>"]
    scores = [0.0] * len(special) + [-2.0] * len(whole) + [-8.0] * len(letters) + [0.0]
    fast = Fast(models.Unigram(list(zip(tokens, scores, strict=True)), unk_id=3))
    fast.pre_tokenizer = pre_tokenizers.Metaspace()
    fast.decoder = decoders.Metaspace()
    fast.save(str(folder / "raw.json"))
    XLMRobertaTokenizerFast(tokenizer_file=str(folder / "raw.json")).save_pretrained(folder)
    return tokens


def write_classifier(folder: Path, family: str) -> None:
    """Write a classifier whose second label, "keep", is likelier the later a word is in WORDS.

    Every other token is wanted least. Attention and feed-forward parts add nothing, so that a
    token's logit is that of its own embedding.
    """
    import torch
    from transformers import (
        BertConfig,
        BertForTokenClassification,
        XLMRobertaConfig,
        XLMRobertaForTokenClassification,
    )

    if family == "bert":
        tokens = bert_tokens(folder)
        sizes = BertConfig(vocab_size=len(tokens), num_hidden_layers=1, **SIZES)
        model: Any = BertForTokenClassification(sizes)
    else:
        tokens = xlm_roberta_tokens(folder)
        config = XLMRobertaConfig(
            vocab_size=len(tokens),
            num_hidden_layers=1,
            max_position_embeddings=514,
            pad_token_id=1,
            **SIZES,
        )
        model = XLMRobertaForTokenClassification(config)
    places = {word: place for place, word in enumerate(WORDS, start=1)}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "LayerNorm.weight" not in name:
                parameter.zero_()
        words = model.base_model.embeddings.word_embeddings.weight
        words[:, 1], words[:, 2] = 1.0, -1.0  # so that the norm keeps the order of what follows
        for number, token in enumerate(tokens):
            words[number, 0] = places.get(token.lstrip("▁"), -5) / len(WORDS)
        model.classifier.weight[1, 0] = 1.0
    model.save_pretrained(folder)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("keep", [0.3, 0.4, 0.7])
def test_the_classifier_decides_which_words_stay(
    tokenizer: Tokenizer, context: MethodContext, tmp_path: Path, family: str, keep: float
) -> None:
    """Within 2 % of the budget: wanted words all stay, unwanted ones go, the rest is untouched."""
    pytest.importorskip("llmlingua")
    write_classifier(tmp_path, family)
    prompt = needle_prompt(tokenizer, 25, documents=3)
    method = LlmLingua(keep=keep, variant="llmlingua2", compressor=str(tmp_path))
    (prepared,) = method.prepare([prompt], context)
    assert prepared.receipt.status is Status.ACTIVE, prepared.receipt.reason
    budget = keep * len(prompt.token_ids)
    assert abs(len(prepared.token_ids) - budget) <= max(1, TOLERANCE * budget)
    text = tokenizer.decode(prepared.token_ids)
    assert text.startswith("Read the text, then answer.")
    assert text.endswith("Question: What is the special magic number for blue-cat?\nAnswer:")
    shares = [text.count(word) / prompt.text.count(word) for word in WORDS]
    # A passage at a time, the least wanted words go first: sharp but for where passages differ.
    assert shares[:2] == [0.0, 0.0]
    assert shares[-6:] == [1.0] * 6
    assert all(later >= earlier - 0.25 for earlier, later in pairwise(shares))


@pytest.mark.parametrize("family", FAMILIES)
def test_low_keep_rates_are_met(
    tokenizer: Tokenizer, context: MethodContext, tmp_path: Path, family: str
) -> None:
    """The package's whole percentiles are 10 % of a tenth; passages between two of them are not."""
    pytest.importorskip("llmlingua")
    write_classifier(tmp_path, family)
    prompts = [needle_prompt(tokenizer, 60, documents=4, seed=seed) for seed in range(3)]
    for keep in (0.08, 0.1, 0.12):
        method = LlmLingua(keep=keep, variant="llmlingua2", compressor=str(tmp_path))
        for prepared in method.prepare(prompts, context):
            assert prepared.receipt.status is Status.ACTIVE, prepared.receipt.reason
