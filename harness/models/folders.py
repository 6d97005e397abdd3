"""Facts about a Hugging Face model folder, read without loading the model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from harness.errors import ModelError
from harness.models.prepared import read_manifest

_WEIGHTS = ("*.safetensors", "*.bin")
_WHOLE_FILE_BYTES = 64 * 2**20
_SAMPLES, _SAMPLE_BYTES = 64, 64 * 2**10


def locate(model: str) -> Path | None:
    """Return the folder of a model given by path or by its name in the local hub cache.

    Returns None where it is neither. Nothing is downloaded.

    Raises
    ------
    ModelError
        The path exists and is not a model folder.
    """
    path = Path(model).expanduser()
    if path.exists():
        check_folder(path)
        return path.resolve()
    if model.count("/") != 1 or model.startswith((".", "/", "~")):
        return None
    from huggingface_hub import snapshot_download

    try:
        snapshot = Path(snapshot_download(model, local_files_only=True))
    except (OSError, ValueError):
        return None
    check_folder(snapshot)
    return snapshot


def check_folder(path: Path) -> None:
    """Raise ModelError where ``path`` is not a folder with a configuration and weights."""
    if not path.is_dir():
        raise ModelError(f"'{path}' is not a model folder: it is a file")
    if not (path / "config.json").is_file():
        raise ModelError(f"'{path}' is not a model folder: it has no config.json")
    if "model_type" not in read_config(path):
        raise ModelError(f"'{path}' is not a model folder: its config.json has no model_type")
    if not weight_files(path):
        raise ModelError(f"'{path}' is not a model folder: it has no *.safetensors or *.bin file")


def read_config(path: Path) -> dict[str, Any]:
    """Return ``config.json`` of a model folder, or raise ModelError."""
    try:
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot read '{path / 'config.json'}': {error}") from error
    if not isinstance(config, dict):
        raise ModelError(f"'{path / 'config.json'}' is not a JSON object")
    return config


def text_config(path: Path) -> dict[str, Any]:
    """Return the language model's part of the configuration."""
    config = read_config(path)
    inner = config.get("text_config")
    return inner if isinstance(inner, dict) else config


def max_positions(path: Path) -> int:
    """Return the model's position range (``max_position_embeddings``), or raise ModelError."""
    value = text_config(path).get("max_position_embeddings")
    if not isinstance(value, int) or value < 1:
        raise ModelError(f"'{path / 'config.json'}' names no max_position_embeddings")
    return value


def weight_files(path: Path) -> list[Path]:
    """Weight files of a model folder, sorted by name."""
    return sorted(file for pattern in _WEIGHTS for file in path.glob(pattern))


def same_tokenizer(first: Path, second: Path) -> bool:
    """Whether two model folders give every text the same token ids.

    Compares everything that shapes the ids in ``tokenizer.json``; a folder without that file
    compares by its ``vocab.json`` and ``merges.txt``, byte for byte.
    """
    return _tokenizer_digest(first) == _tokenizer_digest(second)


def _tokenizer_digest(path: Path) -> str:
    file = path / "tokenizer.json"
    try:
        if file.is_file():
            raw = json.loads(file.read_text(encoding="utf-8"))
            # Truncation and padding are call-time settings that libraries leave in the file.
            facts = {k: v for k, v in raw.items() if k not in ("truncation", "padding", "version")}
            return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
        parts = [(path / n).read_bytes() for n in ("vocab.json", "merges.txt")]
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot read the tokenizer of '{path}': {error}") from error
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def digest_of(path: Path) -> str:
    """Digest that identifies a model folder's configuration, tokenizer and weights.

    A prepared folder has its manifest's digest. Otherwise sha256 over every JSON, tokenizer and
    weight file; weight files above 64 MiB by size and 64 evenly spaced samples, so that a model
    of hundreds of gigabytes is identified within seconds.
    """
    manifest = read_manifest(path)
    if manifest is not None:
        return str(manifest["digest"])
    small = (*path.glob("*.json"), *path.glob("*.txt"), *path.glob("*.model"))
    return _digest_of_files({*small, *weight_files(path)})


def weights_digest(path: Path) -> str:
    """Digest of what a model computes: its configuration and weights, without its tokenizer.

    Files are told apart as :func:`digest_of` tells them.
    """
    return _digest_of_files({path / "config.json", *weight_files(path)})


def _digest_of_files(files: Iterable[Path]) -> str:
    total = hashlib.sha256()
    for file in sorted(files):
        total.update(f"{file.name}\0{_content_digest(file)}\0".encode())
    return total.hexdigest()


def _content_digest(file: Path) -> str:
    size = file.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with file.open("rb") as stream:
        if size <= _WHOLE_FILE_BYTES:
            digest.update(stream.read())
        else:
            for sample in range(_SAMPLES):
                stream.seek((size - _SAMPLE_BYTES) * sample // (_SAMPLES - 1))
                digest.update(stream.read(_SAMPLE_BYTES))
    return digest.hexdigest()
