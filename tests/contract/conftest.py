"""The contract's tiny model and prompts, for what the built-in methods hold beyond it."""

from __future__ import annotations

from harness.methods.contract.bench import base, context, engines, folder, prompts, tokenizer

__all__ = ["base", "context", "engines", "folder", "prompts", "tokenizer"]
