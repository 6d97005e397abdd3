"""Tiny models, tokenizers and prompts for tests that need real ones at no cost."""

from __future__ import annotations

from pathlib import Path

from harness.methods.contract.tiny import WORDS, needle_prompt, tiny_model, tiny_tokenizer
from harness.models.tokenizer import Tokenizer

__all__ = ["WORDS", "metaspace_tokenizer", "needle_prompt", "tiny_model", "tiny_tokenizer"]


def metaspace_tokenizer(folder: Path, scheme: str = "always") -> Tokenizer:
    """Train one as Llama 2's: a blank before the first word, a start token, no chat template.

    ``scheme`` is ``always``, or ``first``: no blank behind a start token that stands in a text.
    """
    from tokenizers import Tokenizer as Fast
    from tokenizers import decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    from harness.tasks.data.essays import load_essays

    fast = Fast(models.BPE(byte_fallback=True))
    fast.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False)
    fast.decoder = decoders.Sequence([decoders.Metaspace(), decoders.ByteFallback()])
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=1500, special_tokens=special, show_progress=False)
    sentences = load_essays().sentences
    fast.train_from_iterator([*sentences, "0 1 2 3 4 5 6 7 8 9 One of the special"], trainer)
    fast.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=fast, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(folder)
    return Tokenizer.load(str(folder))
