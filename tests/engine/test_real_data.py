"""Real rows of every published set, imported and run on the embedded model end to end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from samples import sample

from harness.engines.vllm.engine import VllmEngine
from harness.methods.base import Method, MethodContext
from harness.methods.full import Full
from harness.methods.specprefill.config import SpecPrefillConfig
from harness.methods.specprefill.method import SpecPrefill
from harness.methods.specprefill.vllm.scorer import VllmScorer
from harness.models.tokenizer import Tokenizer
from harness.schema.receipts import Status
from harness.tasks.catalogue import resolve
from harness.tasks.data.importing import import_path
from harness.tasks.examples import load_examples
from harness.tasks.segments import evidence_tokens, share_kept

pytestmark = pytest.mark.engine

MAX_POSITIONS = 2304
TASKS = {
    "longbench_multi_news_30.jsonl": "longbench_multi_news",
    "longbench_passage_retrieval_zh_20.jsonl": "longbench_passage_retrieval_zh",
    "hotpotqa_distractor_60.json": "multidoc_hotpotqa",
    "musique_60.jsonl": "multidoc_musique",
    "squad_paragraphs_160.json": "ruler_qa_1",
}


@pytest.mark.parametrize("name", TASKS)
def test_real_rows_run_end_to_end(
    *,
    name: str,
    smollm2_path: Path,
    vllm_engine: VllmEngine,
    vllm_scorer: VllmScorer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """File → rows → prompts → full prefill and SpecPrefill → text → official score."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    import_path(sample(name))
    (task,) = resolve([TASKS[name]])
    tokenizer = Tokenizer.load(str(smollm2_path))
    found = load_examples(
        task, length=1400, seed=0, limit=2, tokenizer=tokenizer, max_positions=MAX_POSITIONS
    )
    context = MethodContext(tokenizer=tokenizer, scorer=vllm_scorer, max_positions=MAX_POSITIONS)
    methods: tuple[Method, ...] = (Full(), SpecPrefill(SpecPrefillConfig(keep=0.3)))
    for method in methods:
        prepared = list(method.prepare([e.prompt for e in found.examples], context))
        sampling = replace(found.examples[0].sampling, max_tokens=16)
        texts = {g.example_id: g.text for g in vllm_engine.generate(prepared, sampling)}
        for example, one in zip(found.examples, prepared, strict=True):
            scores = found.score(example, texts[example.record.example_id])
            assert 0.0 <= scores[task.metric] <= 1.0
            assert one.receipt.status in {Status.ACTIVE, Status.KEPT_ALL}
            assert one.receipt.kept_spans is not None
            if example.prompt.segments is not None and example.prompt.segments.evidence:
                _, offsets = tokenizer.encode_with_offsets(example.prompt.text)
                gold = evidence_tokens(example.prompt.segments, offsets)
                kept = share_kept(gold, one.receipt.kept_spans)
                assert kept is not None
                assert kept == 1.0 if method.name == "full" else 0.0 <= kept <= 1.0
