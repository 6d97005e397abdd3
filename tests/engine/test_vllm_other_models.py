"""Models of other families on tiny random weights: refused by their layers, or exact."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from engine.processes import children
from engine.reference import Reference
from tiny import tiny_tokenizer
from transformers import AutoConfig, AutoModelForCausalLM

from harness.engines.base import EngineSpec, Sampling
from harness.engines.scorer import ScoreRequest, ScoringConfig
from harness.engines.vllm import engine as engine_module
from harness.engines.vllm.engine import VllmEngine
from harness.errors import EngineRefusedError
from harness.methods.specprefill.vllm import scorer as scorer_module
from harness.methods.specprefill.vllm.scorer import VllmScorer
from harness.schema.prompts import PreparedPrompt
from harness.schema.receipts import Receipt, Status

pytestmark = pytest.mark.engine

PROMPT = tuple((7 * i * i + 13 * i) % 500 + 1 for i in range(200))
KEPT = tuple(i for i in range(200) if i // 32 in {0, 3, 4, 6})
LLAMA_LIKE = {
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
}


def write(folder: Path, kind: str, **sizes: object) -> str:
    """Write a random model with wide weights and a tokenizer; its path."""
    tiny_tokenizer(folder)
    common = {"vocab_size": 512, "initializer_range": 0.15, "eos_token_id": 0, "bos_token_id": None}
    config = AutoConfig.for_model(kind, **{**common, "pad_token_id": 0, **sizes})
    with torch.random.fork_rng():
        torch.manual_seed(0)
        AutoModelForCausalLM.from_config(config).eval().save_pretrained(folder)
    return str(folder)


def prepared(kept: tuple[int, ...]) -> PreparedPrompt:
    """The prompt with these tokens kept."""
    tokens = tuple(PROMPT[i] for i in kept)
    return PreparedPrompt("a", tokens, kept, len(PROMPT), Receipt("test", Status.ACTIVE))


def exact(folder: str, length: int, kept: tuple[int, ...]) -> None:
    """Greedy tokens are transformers', their log probabilities to 1e-4."""
    sampling = Sampling(max_tokens=16, ignore_eos=True, logprobs=True)
    wanted = Reference(Path(folder)).generate(
        prepared(kept).token_ids, kept, len(PROMPT), sampling.max_tokens
    )
    with VllmEngine.open(EngineSpec("vllm", folder, "float32", length)) as engine:
        found = engine.time_one(prepared(kept), sampling)
    assert list(found.token_ids) == wanted[0]
    assert found.logprobs == pytest.approx(wanted[1], abs=1e-4)


ROLES = {"target": (VllmEngine, engine_module), "speculator": (VllmScorer, scorer_module)}
MODELS = {
    "mistral": {**LLAMA_LIKE, "sliding_window": 64},
    "bloom": {"hidden_size": 256, "n_layer": 2, "n_head": 4},
}


@pytest.mark.parametrize(
    ("role", "kind", "names"),
    [
        ("target", "mistral", "sliding-window attention of 64"),
        ("speculator", "mistral", "sliding-window attention of 64"),
        pytest.param("speculator", "bloom", "ALiBi", marks=pytest.mark.long),
    ],
)
def test_layers_have_the_last_word(tmp_path, monkeypatch, role, kind, names):
    """What config.json let pass is refused once loaded, in one line; no process stays."""
    opener, module = ROLES[role]
    spec = EngineSpec("vllm", write(tmp_path, kind, **MODELS[kind]), "float32", 512)
    with pytest.raises(EngineRefusedError, match=names):
        opener.check(spec)
    monkeypatch.setattr(module, "check_model", lambda *_: None)
    before = children()
    with pytest.raises(EngineRefusedError, match=f"SpecPrefill {role}: .*{names}"):
        opener.open(spec)
    assert children() <= before


# Phi-3's two sets of factors: with the wrong one full prefill itself is another model.
PHI3 = {
    **LLAMA_LIKE,
    "original_max_position_embeddings": 256,
    "rope_parameters": {
        "rope_type": "longrope",
        "rope_theta": 10000.0,
        "partial_rotary_factor": 1.0,
        "original_max_position_embeddings": 256,
        "short_factor": [1.0 + 0.01 * i for i in range(32)],
        "long_factor": [2.0 + 0.25 * i for i in range(32)],
    },
}


def test_longrope_keeps_its_short_factors_up_to_the_threshold(tmp_path):
    """An engine of 256 positions where long factors begin above 256: as in transformers."""
    folder = write(tmp_path, "phi3", **PHI3)
    exact(folder, 256, tuple(range(200)))
    exact(folder, 256, KEPT)


def test_a_longrope_speculator_stays_below_the_threshold_too(tmp_path):
    """It gives up one position instead of its factors: scores are transformers'."""
    folder = write(tmp_path, "phi3", **PHI3)
    config = ScoringConfig(look_ahead=4, ignore_eos=True)
    with VllmScorer.open(EngineSpec("vllm", folder, "float32", 256)) as scorer:
        assert scorer.max_positions == 255
        (found,) = scorer.score([ScoreRequest("a", PROMPT, config)])
    rows, ahead = Reference(Path(folder)).rows(PROMPT, config)
    assert found.look_ahead_tokens == ahead
    assert np.abs(found.rows - rows.numpy()).max() <= 1e-5


def test_a_model_with_gpt_2_s_names(tmp_path):
    """Learned positions and other names for its sizes: sized, started, exact."""
    folder = write(tmp_path, "gpt2", n_embd=256, n_layer=2, n_head=4, n_positions=512)
    exact(folder, 512, KEPT)
