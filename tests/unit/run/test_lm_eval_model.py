"""The bridge to lm-eval on the fake engine: requests in, answers out, nothing made up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from unit.tasks.test_building import CHOICE, GENERATE, LIKELIHOOD, write_task

from harness.engines.base import EngineSpec
from harness.engines.fake import FakeEngine, FakeScorer
from harness.errors import ConfigError, HarnessError
from harness.methods.base import MethodContext
from harness.methods.full import Full
from harness.methods.specprefill.config import SpecPrefillConfig
from harness.methods.specprefill.method import SpecPrefill
from harness.models.embedded import prepare_smollm2
from harness.models.tokenizer import Tokenizer
from harness.run.lm_eval_model import MethodLM, run_lm_eval
from harness.schema.prompts import PreparedPrompt, Prompt
from harness.schema.receipts import BudgetKind, Receipt, Status


def bridge(method: Any, tokenizer: Tokenizer, max_positions: int = 4096) -> MethodLM:
    """A bridge over the fake engine."""
    spec = EngineSpec("fake", str(prepare_smollm2()), "float32", max_positions)
    context = MethodContext(
        tokenizer=tokenizer, scorer=FakeScorer.open(spec), max_positions=max_positions
    )
    return MethodLM(method, FakeEngine.open(spec), context)


def requests(*arguments: tuple[Any, ...]) -> list[Any]:
    """lm-eval's instances, as far as a model sees them."""
    return [SimpleNamespace(args=a, arguments=a, task_name="own") for a in arguments]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))


def test_answers_come_in_the_order_of_requests(smollm2: Tokenizer) -> None:
    """Requests are batched by their settings, answers are not shuffled by it."""
    lm = bridge(Full(), smollm2)
    short, long = {"max_gen_toks": 8}, {"max_gen_toks": 16}
    asked = [("the number is 11111", short), ("it is 22222", long), ("now 33333", short)]
    answers = lm.generate_until(requests(*asked))
    assert [a.strip() for a in answers] == ["11111", "22222", "33333"]
    assert lm.statuses["kept_all"] == 3


def test_samsum_ends_as_it_does_in_a_run(smollm2: Tokenizer) -> None:
    """A task's end token is not among lm-eval's settings; it holds through this door too."""
    asked: list[Any] = []

    class Noting(FakeEngine):
        def generate(self, prompts: Any, sampling: Any) -> Any:
            asked.append(sampling)
            return super().generate(prompts, sampling)

    lm = bridge(Full(), smollm2)
    lm.engine = Noting(EngineSpec("fake", str(prepare_smollm2())))
    (request,) = requests(("Summarize: 11111", {"max_gen_toks": 8}))
    for task_name, ends in (("longbench_samsum", smollm2.encode("\n")[-1:]), ("own", ())):
        request.task_name = task_name
        lm.generate_until([request])
        assert asked[-1].end_tokens == ends


def test_specprefill_prunes_contexts(smollm2: Tokenizer) -> None:
    """The method really runs: a keep rate of 0.1 leaves most of a long prompt out."""
    lm = bridge(SpecPrefill(SpecPrefillConfig(keep=0.1)), smollm2)
    filler = "The grass is green. " * 200
    (answer,) = lm.generate_until(requests((f"{filler}It is 77777. {filler}", {"max_gen_toks": 9})))
    assert lm.statuses == {"active": 1}
    assert answer.strip() == "77777"


def test_one_selection_serves_all_continuations(smollm2: Tokenizer) -> None:
    """Equal contexts are prepared once, and results keep the order of the pairs."""

    @dataclass(frozen=True)
    class Counting(Full):
        seen: ClassVar[list[str]] = []

        def prepare(
            self, prompts: Sequence[Prompt], context: MethodContext
        ) -> Iterator[PreparedPrompt]:
            Counting.seen += [prompt.text for prompt in prompts]
            return super().prepare(prompts, context)

    lm = bridge(Counting(), smollm2)
    pairs = [("A is red. B is", " red"), ("A is red. B is", " blue"), ("C is", " red")]
    results = lm.loglikelihood(requests(*pairs))
    assert Counting.seen == ["A is red. B is", "C is"]
    assert results[0][0] > results[1][0]
    assert [greedy for _, greedy in results] == [True, False, False]


def test_an_empty_context_is_full_prefill(smollm2: Tokenizer) -> None:
    """The start token alone conditions a text without a context."""
    lm = bridge(SpecPrefill(SpecPrefillConfig(keep=0.1)), smollm2)
    ((logprob, _),) = lm.loglikelihood(requests(("", "Hello there")))
    assert logprob < 0
    assert set(lm.statuses) == {"kept_all"}


def test_rolling_predicts_every_token_once(smollm2: Tokenizer) -> None:
    """Windows of the model's range cover a text that is longer than it."""
    text = "one two three four five six seven eight nine ten " * 8
    tokens = len(smollm2.encode(text))
    counted: list[int] = []

    class CountingEngine(FakeEngine):
        def loglikelihood(self, pairs: Any) -> Any:
            pairs = list(pairs)
            counted.extend(len(pair.continuation) for pair in pairs)
            return super().loglikelihood(pairs)

    lm = bridge(Full(), smollm2, max_positions=40)
    lm.engine = CountingEngine(EngineSpec("fake", str(prepare_smollm2())))
    (total,) = lm.loglikelihood_rolling(requests((text,)))
    assert sum(counted) == tokens
    assert len(counted) > 1
    assert total < 0


def test_a_prompt_beyond_the_range_is_refused(smollm2: Tokenizer) -> None:
    """Cutting it silently would score another prompt."""
    lm = bridge(Full(), smollm2, max_positions=64)
    with pytest.raises(ConfigError, match="beyond the model's 64 positions"):
        lm.generate_until(requests(("word " * 80, {"max_gen_toks": 4})))


def test_an_unsupported_prompt_ends_the_evaluation(smollm2: Tokenizer) -> None:
    """lm-eval has no place for a missing answer, so none is made up."""

    class Refusing:
        name = "refusing"
        budget_kind = BudgetKind.TOKENS
        needs: ClassVar[frozenset[str]] = frozenset()

        def prepare(self, prompts: Sequence[Prompt], _: MethodContext) -> Iterator[PreparedPrompt]:
            receipt = Receipt("refusing", Status.UNSUPPORTED, "no question is known")
            yield PreparedPrompt(prompts[0].example_id, (), None, 0, receipt)

    with pytest.raises(HarnessError, match="refusing: no question is known"):
        bridge(Refusing(), smollm2).generate_until(requests(("x", {"max_gen_toks": 1})))


def test_chat_templates_begin_the_last_turn(smollm2: Tokenizer) -> None:
    """lm-eval hands an answer prefix over as a last turn, which stays open."""
    lm = bridge(Full(), smollm2)
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "It is"}]
    assert lm.apply_chat_template(turns, add_generation_prompt=False).endswith("assistant\nIt is")
    assert lm.apply_chat_template(turns[:1]).endswith("<|im_start|>assistant\n")
    assert lm.chat_template(True) == smollm2.hf.chat_template


@pytest.mark.parametrize(
    ("body", "metric"), [(GENERATE, "exact_match"), (CHOICE, "acc"), (LIKELIHOOD, "acc")]
)
def test_lm_eval_runs_a_users_task(
    body: str, metric: str, smollm2: Tokenizer, tmp_path: Path
) -> None:
    """lm-eval's own evaluator takes the bridge as any of its models."""
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    found = simple_evaluate(
        model=bridge(SpecPrefill(SpecPrefillConfig(keep=0.3)), smollm2),
        tasks=[str(write_task(tmp_path, body))],
        task_manager=TaskManager(include_defaults=False),  # indexing all of them takes seconds
        limit=4,
        bootstrap_iters=0,
    )
    assert 0.0 <= found["results"]["own"][f"{metric},none"] <= 1.0


def test_lm_evals_command_line_runs_our_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    """``--model specprefill`` is known, and a task name that lm-eval has too means ours."""
    run_lm_eval(
        ["--tasks", "ruler_niah_single_1", "--limit", "2",
         "--model_args", "preset=smollm2,engine=fake,keep=0.3",
         "--metadata", '{"max_seq_lengths": [1024], "count": 2}']
    )  # fmt: skip
    out = capsys.readouterr().out
    assert "ruler_niah_single_1" in out
    assert "string_match_all" in out
