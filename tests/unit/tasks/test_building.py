"""Examples are what lm-eval itself would send: contexts, few-shot, continuations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.errors import ConfigError, DataError, HarnessError
from harness.models.tokenizer import Tokenizer
from harness.tasks.catalogue import resolve
from harness.tasks.examples import TaskExamples, load_examples, load_task
from harness.tasks.framing import Frame
from harness.tasks.pairs import split_pair

ROWS = [{"q": f"Is {i} odd?", "a": ("yes" if i % 2 else "no"), "gold": 1 - i % 2} for i in range(8)]

GENERATE = """
output_type: generate_until
doc_to_text: "Question: {{q}}\\nAnswer:"
doc_to_target: "{{a}}"
num_fewshot: 2
fewshot_split: train
generation_kwargs: {until: ["\\n"], max_gen_toks: 9, do_sample: false, temperature: 1.0}
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
"""
CHOICE = """
output_type: multiple_choice
doc_to_text: "Question: {{q}}\\nAnswer:"
doc_to_choice: ["yes", "no"]
doc_to_target: gold
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true},
              {metric: acc_norm, aggregation: mean, higher_is_better: true}]
"""
LIKELIHOOD = """
output_type: loglikelihood
doc_to_text: "{{q}} "
doc_to_target: "{{a}}"
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]
"""


def write_task(folder: Path, body: str, name: str = "own") -> Path:
    """Write a user's task on local JSON files, as lm-eval's guide has it."""
    for split in ("train", "test"):
        text = "".join(json.dumps(row) + "\n" for row in ROWS)
        (folder / f"{split}.jsonl").write_text(text, encoding="utf-8")
    files = json.dumps({s: str(folder / f"{s}.jsonl") for s in ("train", "test")})
    path = folder / f"{name}.yaml"
    path.write_text(
        f"task: {name}\ndataset_path: json\ndataset_kwargs: {{data_files: {files}}}\n"
        f"training_split: train\ntest_split: test\n{body}",
        encoding="utf-8",
    )
    return path


def load(path: Path, tokenizer: Tokenizer, **changes: Any) -> TaskExamples:
    """Load a user's task."""
    (task,) = resolve([str(path)])
    options = {"length": None, "seed": 0, "limit": None, "max_positions": 4096} | changes
    return load_examples(task, tokenizer=tokenizer, **options)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))


def test_generate_tasks_have_lm_evals_context(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """Few-shot examples and chat template are lm-eval's; sampling off beats a temperature."""
    found = load(write_task(tmp_path, GENERATE), tokenizer)
    example = found.examples[0]
    assert example.prompt.text.count("Question:") == 3
    assert ("<|im_start|>" in example.prompt.text) == tokenizer.has_chat_template
    assert example.prompt.segments is None
    assert example.sampling.stop == ("\n",)
    assert (example.sampling.max_tokens, example.sampling.temperature) == (9, 0.0)
    assert found.score(example, example.record.references[0]) == {"exact_match": 1.0}
    assert found.score(example, "perhaps") == {"exact_match": 0.0}


def test_choices_share_one_context(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """One pair a choice, the same prompt object behind all; the metric is lm-eval's."""
    found = load(write_task(tmp_path, CHOICE), tokenizer)
    example = found.examples[1]
    assert example.kind == "loglikelihood"
    assert len(example.pairs) == 2
    assert example.pairs[0].prompt is example.pairs[1].prompt
    assert example.record.references == ("yes",)
    right = found.score(example, [(-1.0, True), (-2.0, False)])
    wrong = found.score(example, [(-2.0, False), (-1.0, True)])
    assert next(iter(right)) == "acc"
    assert (right["acc"], wrong["acc"]) == (1.0, 0.0)


def test_likelihood_moves_spaces_to_the_continuation(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """Context and continuation are tokenized jointly and split where lm-eval splits."""
    found = load(write_task(tmp_path, LIKELIHOOD), tokenizer)
    (pair,) = found.examples[0].pairs
    assert pair.prompt.text.endswith("odd?")
    whole = pair.prompt.token_ids + pair.continuation
    assert whole == tokenizer.encode(pair.prompt.text + " no")
    assert found.score(found.examples[0], [(-0.5, True)]) == {"acc": 1.0}


def test_split_equals_lm_evals(tokenizer: Tokenizer) -> None:
    """Where no token crosses the boundary, continuations are those of lm-eval's own models."""
    from lm_eval.api.model import TemplateLM

    class Reference(TemplateLM):  # type: ignore[misc]
        eot_token_id = tokenizer.hf.eos_token_id
        backend = "causal"

        def tok_encode(self, string: str, **_: Any) -> list[int]:
            return list(tokenizer.hf(string, add_special_tokens=True)["input_ids"])

        def _loglikelihood_tokens(self, *_: Any, **__: Any) -> Any: ...
        def loglikelihood_rolling(self, *_: Any, **__: Any) -> Any: ...
        def generate_until(self, *_: Any, **__: Any) -> Any: ...

    reference = Reference()
    for context, continuation in [("The cat", " sat"), ("A b ", "c"), ("x = ", "1\n"), ("é", " è")]:
        _, ids, rest = split_pair(Frame(tokenizer, chat=False), context, continuation)
        expected_context, expected_rest = reference._encode_pair(context, continuation)
        assert list(rest) == expected_rest
        # lm-eval encodes the context alone, which some tokenizers do otherwise than in its place.
        whole = reference.tok_encode(context + continuation)
        assert list(ids) == whole[: len(whole) - len(rest)]
        assert len(ids) == len(expected_context)


@pytest.mark.parametrize(
    ("context", "continuations"),
    [
        ("hello wor", ("ld", "k")),
        ("Ans", ("wer", "ker")),
        ("The cat", ("s", " sat")),
        ("é", ("t",)),
    ],
)
def test_no_continuation_is_left_without_tokens(
    tokenizer: Tokenizer, context: str, continuations: tuple[str, ...]
) -> None:
    """A token across the boundary is the continuation's (lm-evaluation-harness#1297, PR #4055)."""
    frame = Frame(tokenizer, chat=False)
    for continuation in continuations:
        text, ids, rest = split_pair(frame, context, continuation)
        assert ids
        assert rest
        whole = tokenizer.encode(frame.start(context) + continuation)
        assert rest == whole[-len(rest) :]
        assert ids + rest == whole or text in {tokenizer.hf.bos_token, tokenizer.hf.eos_token}
        assert tokenizer.decode(rest).endswith(continuation.strip())


def test_an_empty_continuation_is_refused(tokenizer: Tokenizer) -> None:
    """It would have the log-likelihood 0: certain."""
    for context in ("The cat", ""):
        with pytest.raises(DataError, match="continuation is empty"):
            split_pair(Frame(tokenizer, chat=False), context, "")


def test_reach_counts_context_and_continuation(smollm2: Tokenizer, tmp_path: Path) -> None:
    """The range must hold both, and the token that vLLM decodes after them."""
    example = load(write_task(tmp_path, CHOICE), smollm2).examples[0]
    longest = max(len(p.prompt.token_ids) + len(p.continuation) for p in example.pairs)
    assert example.reach == longest + 1
    load(write_task(tmp_path, CHOICE), smollm2, max_positions=longest + 1, limit=1)
    with pytest.raises(DataError, match=f"take {longest + 1} positions"):
        load(write_task(tmp_path, CHOICE), smollm2, max_positions=longest)


def test_an_empty_context_is_the_start_token(tokenizer: Tokenizer) -> None:
    """There is always one token to predict from."""
    text, ids, rest = split_pair(Frame(tokenizer, chat=False), "", "Oslo")
    assert len(ids) == 1
    assert tokenizer.encode(text) == ids
    assert rest == tokenizer.encode("Oslo")


def test_our_prompts_equal_lm_evals(tokenizer: Tokenizer) -> None:
    """What the frame renders is what lm-eval renders for the same task and document."""
    from harness.tasks.generation import Request

    (task,) = resolve(["ruler_vt"])
    found = load_examples(
        task, length=1200, seed=0, limit=2, tokenizer=tokenizer, max_positions=4096
    )
    frame = Frame.of(tokenizer)
    lm_task = load_task(task, {"request": Request(frame, (1200,), 0, 2, task.name)})

    def chat_template(messages: list[dict[str, str]], **_: Any) -> str:
        *turns, last = messages
        return tokenizer.chat(turns, answer_prefix=last["content"])

    for example, doc in zip(found.examples, lm_task.eval_docs, strict=True):
        theirs = lm_task.fewshot_context(
            doc,
            num_fewshot=0,
            apply_chat_template=frame.chat,
            chat_template=chat_template,
            gen_prefix=lm_task.doc_to_prefix(doc),
        )
        assert frame.start(theirs) == example.prompt.text


def test_limits_take_examples_by_seed(smollm2: Tokenizer, tmp_path: Path) -> None:
    """A subset is drawn by the data seed and keeps the data's order."""
    path = write_task(tmp_path, GENERATE)

    def indices(seed: int) -> list[int]:
        found = load(path, smollm2, seed=seed, limit=3).examples
        return [example.record.index for example in found]

    assert indices(1) == indices(1) == sorted(indices(1))
    assert len({tuple(indices(seed)) for seed in range(6)}) > 1


def test_a_run_downloads_nothing(smollm2: Tokenizer) -> None:
    """A task of lm-eval's whose data are not cached fails at once, with the command to get them."""
    (task,) = resolve(["arc_easy"])
    with pytest.raises(DataError, match="harness data pull arc_easy"):
        load_examples(task, length=None, seed=0, limit=1, tokenizer=smollm2, max_positions=4096)


def test_perplexity_goes_to_lm_eval(smollm2: Tokenizer, tmp_path: Path) -> None:
    """A whole text has no score in [0, 1]; the line names the command that measures it."""
    body = (
        "output_type: loglikelihood_rolling\ndoc_to_text: ''\ndoc_to_target: '{{q}}'\n"
        "metric_list: [{metric: word_perplexity}]\n"
    )
    with pytest.raises(ConfigError, match="harness lm-eval --tasks own"):
        load(write_task(tmp_path, body), smollm2)


@pytest.mark.parametrize(
    ("body", "match"),
    [
        (GENERATE.replace("{{q}}", "{{nothing}}"), "nothing"),
        (GENERATE.replace("{{q}}", "{% if %}"), "TemplateSyntaxError"),
        (GENERATE.replace("exact_match", "no_such_metric"), "no_such_metric|metric"),
        (GENERATE + "process_results: !function nowhere.score\n", "nowhere"),
    ],
)
def test_a_faulty_task_is_one_line(
    body: str,
    match: str,
    smollm2: Tokenizer,
    tmp_path: Path,
) -> None:
    """Whatever a task's own YAML or code raises names the task in one line."""
    with pytest.raises(HarnessError, match=match) as error:
        load(write_task(tmp_path, body), smollm2)
    assert "\n" not in str(error.value)


def test_a_prompt_beyond_the_range(smollm2: Tokenizer, tmp_path: Path) -> None:
    """A foreign task's prompt is never cut silently."""
    with pytest.raises(DataError, match="positions"):
        load(write_task(tmp_path, GENERATE), smollm2, max_positions=64)
