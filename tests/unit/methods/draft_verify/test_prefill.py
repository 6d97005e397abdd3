"""The draft/verify loop and its identities, on tiny models in float32."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import needle_prompt, tiny_model, tiny_tokenizer

from harness.engines.hf.model import forward, new_cache
from harness.errors import ConfigError, UnsupportedError
from harness.methods.draft_verify import PrefillConfig, SpecPrefillForCausalLM, standard_prefill
from harness.methods.draft_verify.cache import slot_cache, trim
from harness.methods.draft_verify.calibration import Calibration, fit
from harness.methods.draft_verify.corpus import FIT_TOKENS, calibration_sequences
from harness.methods.draft_verify.prefill import Tally
from harness.methods.draft_verify.view import View
from harness.models.folders import weights_digest
from harness.models.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A verifier, and a draft of another size with other random weights."""
    made = {}
    for name, seed, layers, hidden in (("verifier", 0, 3, 48), ("random", 5, 2, 32)):
        path = tmp_path_factory.mktemp(name)
        tiny_model(path, seed=seed, layers=layers, hidden=hidden)
        tiny_tokenizer(path)
        made[name] = str(path)
    return made


@pytest.fixture(scope="module")
def ids(folders: dict[str, str]) -> tuple[int, ...]:
    """A prompt of several chunks with a short last one."""
    prompt = needle_prompt(Tokenizer.load(folders["verifier"]), 60)
    assert len(prompt.token_ids) > 5 * 128
    assert len(prompt.token_ids) % 128 not in {0, 64}
    return prompt.token_ids


@pytest.fixture(scope="module")
def same(folders: dict[str, str]) -> SpecPrefillForCausalLM:
    """Draft and verifier with identical weights."""
    return SpecPrefillForCausalLM.from_pretrained(
        draft_model_name=folders["verifier"], verifier_model_name=folders["verifier"]
    )


@pytest.fixture(scope="module")
def unlike(
    folders: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> SpecPrefillForCausalLM:
    """A random draft for the verifier, its maps fitted afresh."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        return SpecPrefillForCausalLM.from_pretrained(
            draft_model_name=folders["random"], verifier_model_name=folders["verifier"]
        )


def cache_gap(a: Any, b: Any) -> float:
    """Largest difference between two caches' keys and values."""
    return max(
        float((x - y).abs().max())
        for p, q in zip(a.layers, b.layers, strict=True)
        for x, y in ((p.keys, q.keys), (p.values, q.values))
    )


def test_identical_weights_accept_everything(
    same: SpecPrefillForCausalLM, ids: tuple[int, ...]
) -> None:
    """Every map is the identity: all accepted, the cache and the tokens are full prefill's."""
    result = same.prefill(ids)
    cache, logits = standard_prefill(same.pair.verifier.model, ids)
    assert result.acceptance_rate == 1.0
    assert not result.tally.fell_back
    assert result.ttft_ms > 0
    assert cache_gap(result.cache, cache) < 1e-4
    torch.testing.assert_close(result.logits, logits, atol=1e-4, rtol=1e-4)
    # Two checkpoints in each whole chunk and one or two in the last: the rest is the draft's.
    assert result.tally.verifier_tokens == len(result.tally.cosines)
    assert result.tally.drafted == len(ids) - result.tally.verifier_tokens


def test_generates_as_transformers_does(same: SpecPrefillForCausalLM, ids: tuple[int, ...]) -> None:
    """The drop-in interface gives the same greedy tokens as the model's own generate."""
    given = torch.tensor([ids])
    truth = same.pair.verifier.model.generate(given, max_new_tokens=12, do_sample=False)
    assert same.generate(given, max_new_tokens=12).tolist() == truth.tolist()


@pytest.mark.parametrize("fallback", [True, False])
def test_above_one_nothing_is_accepted(
    unlike: SpecPrefillForCausalLM, ids: tuple[int, ...], fallback: bool
) -> None:
    """A threshold over 1 equals full prefill, by the fallback or chunk by chunk."""
    unlike.config = PrefillConfig(acceptance_threshold=1.01, fallback_to_full=fallback)
    result = unlike.prefill(ids)
    cache, logits = standard_prefill(unlike.pair.verifier.model, ids)
    assert result.acceptance_rate == 0.0
    assert result.tally.fell_back is fallback
    assert result.tally.drafted == 0
    assert cache_gap(result.cache, cache) < 1e-4
    torch.testing.assert_close(result.logits, logits, atol=1e-4, rtol=1e-4)


def test_a_random_draft_is_rejected(unlike: SpecPrefillForCausalLM, ids: tuple[int, ...]) -> None:
    """At the default threshold it goes over 30 % rejections and falls back after four chunks."""
    unlike.config = PrefillConfig()
    tally = unlike.prefill(ids).tally
    assert tally.fell_back
    assert tally.decided == 4
    assert tally.rejected / tally.decided > 0.3


def test_accepting_a_bad_draft_changes_the_output(
    unlike: SpecPrefillForCausalLM, ids: tuple[int, ...]
) -> None:
    """The mapped slots really are in the cache: accepting everything moves the logits."""
    unlike.config = PrefillConfig(acceptance_threshold=-1.0)
    result = unlike.prefill(ids)
    _, logits = standard_prefill(unlike.pair.verifier.model, ids)
    assert result.acceptance_rate == 1.0
    assert (result.logits - logits).abs().max() > 0.05


def test_a_rejected_checkpoint_keeps_the_passed_half(
    same: SpecPrefillForCausalLM, ids: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache is trimmed to the last passed checkpoint and recomputed to the chunk's end."""
    cosines = iter([1.0, 0.0] + [1.0] * 100)
    monkeypatch.setattr(same.pair, "cosine", lambda *_: next(cosines))
    result = same.prefill(ids)
    tally = result.tally
    assert (tally.rejected, tally.fell_back) == (1, False)
    # Checkpoints at 64 and 128 ran, then the chunk's second half again.
    assert tally.verifier_tokens == len(tally.cosines) + 64
    cache, _ = standard_prefill(same.pair.verifier.model, ids)
    assert cache_gap(result.cache, cache) < 1e-4


def test_nan_is_not_accepted(
    same: SpecPrefillForCausalLM, ids: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cosine that is no number says nothing good of a chunk."""
    monkeypatch.setattr(same.pair, "cosine", lambda *_: float("nan"))
    tally = same.prefill(ids).tally
    assert tally.acceptance_rate == 0.0
    assert tally.drafted == 0
    assert tally.alike(0.9) == (None, None)  # every threshold refuses them


def test_shuffled_pairs_are_measured_beside(
    same: SpecPrefillForCausalLM, ids: tuple[int, ...]
) -> None:
    """Each checkpoint but the first has a pair that does not belong together, less alike."""
    tally = same.prefill(ids).tally
    assert len(tally.shuffled) == len(tally.cosines) - 1
    assert min(tally.cosines) > 0.999 > max(tally.shuffled)


def test_thresholds_between_two_cosines_decide_alike() -> None:
    """The bounds are those of the cosines on either side of the threshold."""
    tally = Tally(cosines=[0.5, 0.95, 0.9, 0.7])
    assert tally.alike(0.8) == (0.7, 0.9)
    assert tally.alike(0.9) == (0.7, 0.9)
    assert tally.alike(1.01) == (0.95, None)
    assert tally.alike(0.1) == (None, 0.5)


def test_weights_alone_make_a_model_identical(folders: dict[str, str], tmp_path: Path) -> None:
    """Another generation_config.json fits no maps; other weights do."""
    copy = tmp_path / "copy"
    shutil.copytree(folders["verifier"], copy)
    (copy / "generation_config.json").write_text('{"max_new_tokens": 7}')
    assert weights_digest(copy) == weights_digest(Path(folders["verifier"]))
    assert weights_digest(copy) != weights_digest(Path(folders["random"]))
    pair = SpecPrefillForCausalLM.from_pretrained(str(copy), folders["verifier"]).pair
    assert pair.facts == {"maps": "identity (identical weights)"}


def test_full_prefill_takes_a_batch_of_one(
    same: SpecPrefillForCausalLM, ids: tuple[int, ...]
) -> None:
    """Token ids as transformers shapes them, and as a list."""
    model = same.pair.verifier.model
    _, rows = standard_prefill(model, torch.tensor([ids]))
    _, plain = standard_prefill(model, ids)
    torch.testing.assert_close(rows, plain)


def test_fallback_waits_for_four_chunks(
    same: SpecPrefillForCausalLM, ids: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One rejection in four is within 30 %, two are not; three chunks never decide it."""
    for failing, falls in (({0}, False), ({0, 2}, True)):
        pattern = [-1.0 if chunk in failing else 1.0 for chunk in range(20)]
        state = iter(value for value in pattern for _ in range(1 if value < 0 else 2))
        monkeypatch.setattr(same.pair, "cosine", lambda *_, state=state: next(state))
        tally = same.prefill(ids).tally
        assert tally.fell_back is falls
        assert tally.decided == (4 if falls else -(-len(ids) // 128))
    monkeypatch.setattr(same.pair, "cosine", lambda *_: -1.0)
    assert not same.prefill(ids[: 3 * 128]).tally.fell_back


def test_checkpoints() -> None:
    """Every stride-th token and the last one of a chunk, also of a short one."""
    config = PrefillConfig()
    assert config.checkpoints(128, 256) == [191, 255]
    assert config.checkpoints(256, 300) == [299]
    assert config.checkpoints(0, 65) == [63, 64]
    assert PrefillConfig(verify_stride=500).checkpoints(0, 128) == [127]


def test_maps_are_kept_and_say_how_good_they_are(
    folders: dict[str, str], unlike: SpecPrefillForCausalLM, tmp_path: Path
) -> None:
    """A fit survives its file; its facts name the layers, the text and the shuffled cosine."""
    calibration = unlike.pair.calibration
    assert calibration is not None
    calibration.save(tmp_path / "maps.safetensors")
    again = Calibration.load(tmp_path / "maps.safetensors")
    assert again.facts == calibration.facts
    torch.testing.assert_close(again.keys[1].weight, calibration.keys[1].weight)
    facts = calibration.facts
    assert facts.tokens == FIT_TOKENS
    assert facts.layer_map == [0, 1, 1]
    assert facts.matched_cosine > facts.shuffled_cosine + 0.02


def test_fitting_a_model_to_itself_finds_the_identity(folders: dict[str, str]) -> None:
    """The maps undo and redo the rotary embedding rightly: a model explains itself."""
    model = SpecPrefillForCausalLM.from_pretrained(folders["verifier"], folders["verifier"])
    view = View(model.pair.verifier.model)
    fit_on, judge_on, text = calibration_sequences(Tokenizer.load(folders["verifier"]))
    fitted = fit(view, view, fit_on[:8], judge_on[:1], ("a", "a", text))
    assert min(r for r in fitted.facts.key_r2 if r is not None) > 0.9
    assert fitted.facts.matched_cosine > 0.95


def test_rotation_is_undone(same: SpecPrefillForCausalLM) -> None:
    """Keys of one token alone are equal at every position once the rotation is taken off."""
    view = same.pair.verifier
    keys = []
    with torch.inference_mode():
        for position in (0, 3, 500):
            cache = new_cache(view.model)
            view.run([9], position, cache)
            rotated = cache.layers[1].keys[0]
            plain = view.unrotated(rotated, position)
            torch.testing.assert_close(view.rotated(plain, position), rotated)
            keys.append(plain)
    torch.testing.assert_close(keys[0], keys[1], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(keys[0], keys[2], atol=1e-4, rtol=1e-3)


def test_slots_fill_trim_and_grow(same: SpecPrefillForCausalLM, ids: tuple[int, ...]) -> None:
    """A trimmed cache goes on as if the dropped tokens had never been there, past its room."""
    model = same.pair.verifier.model
    plain, slots = new_cache(model), slot_cache(3, 40)
    with torch.inference_mode():
        for cache in (plain, slots):
            forward(model, ids[:40], range(40), cache)
        trim(slots, 25)
        plain.crop(25 - 40)
        a, b = (forward(model, ids[25:60], range(25, 60), c) for c in (plain, slots))
    torch.testing.assert_close(a, b)
    assert slots.get_seq_length() == 60


def test_refusals(same: SpecPrefillForCausalLM, folders: dict[str, str], tmp_path: Path) -> None:
    """Empty, batched and overlong prompts, and another tokenizer, are refused in one line."""
    for bad, word in (([], "no tokens"), ([[1], [2]], "one prompt"), ([1] * 5000, "4096")):
        with pytest.raises(ConfigError, match=word):
            same.prefill(torch.tensor(bad, dtype=torch.long))
    tiny_model(tmp_path, seed=3)
    tiny_tokenizer(tmp_path, vocabulary=300)
    with pytest.raises(UnsupportedError, match="another tokenizer"):
        SpecPrefillForCausalLM.from_pretrained(str(tmp_path), folders["verifier"])
