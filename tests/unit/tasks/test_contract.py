"""lm-eval's promises about metrics: filters applied, what cannot be compared refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from unit.tasks.test_building import CHOICE, GENERATE, LIKELIHOOD, load, write_task

from harness.errors import ConfigError, DataError, HarnessError
from harness.models.tokenizer import Tokenizer

FILTERED = (
    "output_type: generate_until\ndoc_to_text: '{{q}}'\ndoc_to_target: '{{a}}'\n"
    "generation_kwargs: {max_gen_toks: 9}\n"
    "metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]\n"
    "filter_list:\n"
)
LAST_WORD = (
    "  - name: last_word\n    filter:\n"
    "      - {function: regex, regex_pattern: '(\\w+)', group_select: -1}\n"
    "      - {function: take_first}\n"
)
LOWER = (
    "  - name: lower\n    filter:\n      - {function: lowercase}\n      - {function: take_first}\n"
)
OWN = (
    "output_type: generate_until\ndoc_to_text: '{{q}}'\ndoc_to_target: '{{a}}'\n"
    "generation_kwargs: {max_gen_toks: 9}\nprocess_results: !function own.process\n"
)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))


def own(folder: Path, code: str, metrics: str, more: str = "") -> Path:
    """Write a task with scoring code of its own."""
    (folder / "own.py").write_text(
        f"import numpy as np\n\n\ndef process(doc, results):\n    return {code}\n", encoding="utf-8"
    )
    return write_task(folder, f"{OWN}metric_list: [{metrics}]\n{more}")


def mean(name: str, better: str = "true") -> str:
    """A metric's entry in a YAML."""
    return f"{{metric: {name}, aggregation: mean, higher_is_better: {better}}}"


def test_filters_are_applied(smollm2: Tokenizer, tmp_path: Path) -> None:
    """The pipeline's answer is scored, under its name (lm-evaluation-harness#1204, #3214)."""
    found = load(write_task(tmp_path, FILTERED + LAST_WORD), smollm2)
    example = found.examples[0]
    assert found.task.metric == "exact_match,last_word"
    assert found.score(example, "I think: no") == {"exact_match,last_word": 1.0}
    assert found.score(example, "no, wait, yes") == {"exact_match,last_word": 0.0}


def test_each_pipeline_has_its_metrics(smollm2: Tokenizer, tmp_path: Path) -> None:
    """The first pipeline's first metric is primary."""
    found = load(write_task(tmp_path, FILTERED + LOWER + LAST_WORD), smollm2)
    assert found.score(found.examples[0], "NO") == {
        "exact_match,lower": 1.0, "exact_match,last_word": 0.0,
    }  # fmt: skip


def test_filters_give_lm_evals_own_score(smollm2: Tokenizer, tmp_path: Path) -> None:
    """The same file through lm-eval's evaluator: equal scores under the same name."""
    from lm_eval import simple_evaluate
    from lm_eval.api.model import LM
    from lm_eval.tasks import TaskManager

    def answer(context: str) -> str:
        return "maybe yes" if "3" in context else "surely no"

    class Fixed(LM):  # type: ignore[misc]
        def generate_until(self, requests: list[Any], **_: Any) -> list[str]:
            return [answer(request.args[0]) for request in requests]

        def loglikelihood(self, *_: Any, **__: Any) -> Any: ...
        def loglikelihood_rolling(self, *_: Any, **__: Any) -> Any: ...

    path = write_task(tmp_path, FILTERED + LAST_WORD)
    theirs = simple_evaluate(
        model=Fixed(), tasks=[str(path)], task_manager=TaskManager(include_defaults=False),
        bootstrap_iters=0,
    )["results"]["own"]  # fmt: skip
    found = load(path, smollm2)
    scores = [found.score(e, answer(e.doc["q"]))[found.task.metric] for e in found.examples]
    assert theirs[found.task.metric] == pytest.approx(sum(scores) / len(scores))
    assert 0 < theirs[found.task.metric] < 1


@pytest.mark.parametrize(
    ("value", "score"),
    [("np.float32(0)", 0.0), ("np.bool_(True)", 1.0), ("True", 1.0), ("np.array(0.5)", 0.5),
     ("np.int64(1)", 1.0)],
)  # fmt: skip
def test_scalars_of_any_make_are_numbers(
    value: str, score: float, smollm2: Tokenizer, tmp_path: Path
) -> None:
    """And no other metric takes the primary one's place (lm-evaluation-harness PR #3885)."""
    code = f'{{"helper": 1.0, "primary": {value}, "words": "x", "pair": (1, 2)}}'
    found = load(own(tmp_path, code, f"{mean('primary')}, {mean('helper')}"), smollm2)
    assert found.score(found.examples[0], "x") == {"primary": score, "helper": 1.0}
    assert next(iter(found.score(found.examples[0], "x"))) == "primary"


@pytest.mark.parametrize(
    ("code", "match"),
    [
        ('{"helper": 1.0}', "no number primary: helper"),
        ('{"primary": "0.5"}', "no number primary"),
        ('{"primary": (0.5, 1)}', "no number primary"),
        ('{"primary": 73.2}', "primary is 73.2; scores must lie in"),
        ('{"primary": -0.1}', "primary is -0.1"),
        ('{"primary": float("nan")}', "primary is nan"),
    ],
)
def test_scores_that_are_none(code: str, match: str, smollm2: Tokenizer, tmp_path: Path) -> None:
    """Found in the plan, on the first example, before a model loads."""
    with pytest.raises(DataError, match=match):
        load(own(tmp_path, code, mean("primary")), smollm2)


def test_code_that_cannot_read_a_made_up_answer(smollm2: Tokenizer, tmp_path: Path) -> None:
    """It says nothing about the answers of a model; a real one's fault is the task's."""
    found = load(own(tmp_path, '{"primary": float(results[0])}', mean("primary")), smollm2)
    assert found.score(found.examples[0], "0.25") == {"primary": 0.25}
    with pytest.raises(DataError, match="could not convert"):
        found.score(found.examples[0], "no number")


@pytest.mark.parametrize(
    ("metrics", "match"),
    [
        (mean("loss", "false"), "of loss less is better"),
        (f"{mean('loss', 'false')}, {mean('gain')}", "a task of your own may list gain first"),
        ("{metric: bleu, aggregation: bleu, higher_is_better: true}", "bleu is aggregated by bleu"),
        ("{metric: f, aggregation: !function own.process, higher_is_better: true}",
         "f is aggregated by process"),
        ("{metric: ter, aggregation: median, higher_is_better: true}", "aggregated by median"),
    ],
)  # fmt: skip
def test_metrics_that_cannot_be_compared(
    metrics: str, match: str, smollm2: Tokenizer, tmp_path: Path
) -> None:
    """Losses and scores of a whole corpus (lm-evaluation-harness PR #3993, #4050)."""
    with pytest.raises(ConfigError, match=match):
        load(own(tmp_path, '{"loss": 0.2}', metrics), smollm2)


def test_lm_evals_own_corpus_metrics(smollm2: Tokenizer, tmp_path: Path) -> None:
    """Where no scoring code stands in the task; beside a mean they are left out of records."""
    bleu = GENERATE.replace("exact_match, aggregation: mean", "bleu, aggregation: bleu")
    with pytest.raises(ConfigError, match="own: bleu is aggregated by bleu"):
        load(write_task(tmp_path, bleu), smollm2)
    perplexity = "{metric: perplexity, aggregation: perplexity, higher_is_better: false}"
    first = LIKELIHOOD.replace("[{metric", f"[{perplexity}, {{metric")
    with pytest.raises(ConfigError, match=r"perplexity is aggregated .* may list acc first"):
        load(write_task(tmp_path, first), smollm2)
    second = LIKELIHOOD.replace("true}]", f"true}}, {perplexity}]")
    found = load(write_task(tmp_path, second), smollm2)
    assert found.score(found.examples[0], [(-0.5, True)]) == {"acc": 1.0}


def test_defaults_where_a_task_lists_none(smollm2: Tokenizer, tmp_path: Path) -> None:
    """lm-eval's default for log-likelihoods begins with perplexity; accuracy can be compared."""
    for body in (LIKELIHOOD, CHOICE):
        bare = body[: body.index("metric_list")]
        assert load(write_task(tmp_path, bare), smollm2).task.metric == "acc"


def test_a_declared_scale(smollm2: Tokenizer, tmp_path: Path) -> None:
    """``metadata: {scale: …}`` is believed, and must be a scale."""
    for scale, match in (("[0, 100]", "scores from 0 to 100"), ("ten", "is no .lowest, highest")):
        path = own(tmp_path, '{"primary": 0.5}', mean("primary"), f"metadata: {{scale: {scale}}}\n")
        with pytest.raises(ConfigError, match=match):
            load(path, smollm2)


def test_several_answers_an_example(smollm2: Tokenizer, tmp_path: Path) -> None:
    """A vote among 64 answers is no answer's score, and one answer is no vote."""
    with pytest.raises(ConfigError, match="wants 64 answers an example"):
        load(write_task(tmp_path, FILTERED + LAST_WORD + "repeats: 64\n"), smollm2)


def test_a_dropped_sampling_option_is_refused(smollm2: Tokenizer, tmp_path: Path) -> None:
    """The plan names the task and the option."""
    body = GENERATE.replace("do_sample: false", "num_beams: 4")
    with pytest.raises(ConfigError, match="own: generation_kwargs: num_beams 4"):
        load(write_task(tmp_path, body), smollm2)


def test_a_description_without_a_system_role(smollm2: Tokenizer, tmp_path: Path) -> None:
    """A task's description reaches a model whose template has no place for it."""
    body = GENERATE + 'description: "Answer with one word. "\n'
    plain = Tokenizer.load(smollm2.hf.name_or_path)
    plain.hf.chat_template = (
        "{% for m in messages %}{% if m['role'] == 'system' %}{{ raise_exception('no system') }}"
        "{% endif %}[{{ m['role'] }}] {{ m['content'] }}{% endfor %}[assistant]"
    )
    example = load(write_task(tmp_path, body), plain).examples[0]
    assert "[user] Answer with one word. Question:" in example.prompt.text
    plain.hf.chat_template = "{{ raise_exception('no role at all') }}"
    with pytest.raises(DataError, match=r"own: the model's chat template .* no role at all"):
        load(write_task(tmp_path, body), plain)


def test_faults_are_one_line(smollm2: Tokenizer, tmp_path: Path) -> None:
    """Every refusal names the task and has no line end in it."""
    with pytest.raises(HarnessError) as error:
        load(own(tmp_path, '{"loss": 0.2}', mean("loss", "false")), smollm2)
    assert str(error.value).startswith("own: ")
    assert "\n" not in str(error.value)
