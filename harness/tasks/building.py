"""One lm-eval document becomes one example: prompt, segments, pairs and record."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from harness.engines.admission import AFTER_PAIR
from harness.engines.base import Sampling
from harness.errors import ConfigError, DataError
from harness.schema.prompts import Prompt, Segments
from harness.schema.records import ExampleRecord
from harness.tasks.framing import Frame
from harness.tasks.info import FOREIGN, TaskInfo
from harness.tasks.pairs import Pair, split_pair
from harness.tasks.sampling import ending_at, sampling_of
from harness.tasks.segments import NO_CUT, Cut, locate, place


@dataclass(frozen=True, slots=True)
class Example:
    """One example, ready for a method.

    Attributes
    ----------
    prompt
        What the target sees under full prefill; for log-likelihoods, the first pair's context.
    sampling
        The task's own generation settings.
    pairs
        For ``kind`` ``loglikelihood``: one a continuation, in lm-eval's order. Pairs with equal
        contexts share one prompt object.
    doc
        lm-eval's document, for scoring.
    """

    record: ExampleRecord
    prompt: Prompt
    sampling: Sampling
    kind: Literal["generate", "loglikelihood"]
    doc: Mapping[str, Any] = field(repr=False)
    pairs: tuple[Pair, ...] = ()

    @property
    def reach(self) -> int:
        """Positions that the longest of its prompts takes with what follows it."""
        scored = (len(p.prompt.token_ids) + len(p.continuation) + AFTER_PAIR for p in self.pairs)
        return max(len(self.prompt.token_ids) + self.sampling.max_tokens, *scored, 0)


@dataclass(frozen=True, slots=True)
class Text:
    """A whole prompt's text with what is known of it.

    ``cut_tokens`` were taken out of its middle to make it fit.
    """

    text: str
    segments: Segments | None = None
    cut_tokens: int = 0

    @property
    def query(self) -> str | None:
        """The question's text; None where the task names none."""
        if self.segments is None or not self.segments.question:
            return None
        return "\n".join(self.text[a:b] for a, b in self.segments.question)


class Builder:
    """Turns a task's documents into examples under one frame.

    Parameters
    ----------
    lm_task
        The lm-eval task, instantiated.
    length
        What ``--length`` asked for; names the examples.
    max_positions
        The model's range, which prompt and new tokens share.
    sample_seed
        Seeds what is drawn, where a task draws and names no seed itself.
    """

    def __init__(
        self,
        task: TaskInfo,
        lm_task: Any,
        frame: Frame,
        *,
        length: int | None,
        seed: int,
        max_positions: int,
        sample_seed: int = 0,
    ) -> None:
        self.task, self.lm_task, self.frame = task, lm_task, frame
        self.length, self.seed, self.max_positions = length, seed, max_positions
        self.own = task.group != FOREIGN
        self.segments = (lm_task.config.metadata or {}).get("segments")
        sampling = sampling_of(lm_task, sample_seed)
        self.sampling = sampling and ending_at(sampling, task.end_token, frame.tokenizer)
        lm_task.set_fewshot_seed(seed)

    def build(self, index: int, doc: Mapping[str, Any]) -> Example:
        """Build the example of document ``index``."""
        example_id = f"{self.task.name}/{self.length or 'full'}/{self.seed}/{index}"
        # lm-eval makes the contexts of its own log-likelihood tasks itself.
        whole = self._whole(doc) if self.sampling or self.own else None
        pairs = () if self.sampling else self._pairs(doc, example_id, whole)
        prompt = pairs[0].prompt if whole is None or pairs else self._prompt(whole, example_id)
        example = Example(
            record=self._record(index, doc, prompt, 0 if whole is None else whole.cut_tokens),
            prompt=prompt,
            sampling=self.sampling or Sampling(max_tokens=0),
            kind="generate" if self.sampling else "loglikelihood",
            doc=doc,
            pairs=pairs,
        )
        self._check(example)
        return example

    def _whole(self, doc: Mapping[str, Any]) -> Text:
        """The whole prompt: through our frame for our tasks, through lm-eval's for others."""
        if not self.own:
            context = self._context(doc)
            return Text(context if self.frame.chat else self.frame.start(context))
        user = str(self.lm_task.doc_to_text(doc))
        prefix = self.lm_task.doc_to_prefix(doc) or ""
        cut, lost = self._cut(user, prefix) if self.task.truncate else (NO_CUT, 0)
        text = self.frame.render(user[: cut.start] + user[cut.stop :], prefix)
        if self.segments is None:
            return Text(text, cut_tokens=lost)
        found = locate(self.segments(doc), user, task=self.task.name)
        return Text(text, place(found, user, text, cut=cut), lost)

    def _context(self, doc: Mapping[str, Any]) -> Any:
        """lm-eval's own context, few-shot examples and all."""
        return self.lm_task.fewshot_context(
            doc,
            num_fewshot=self.lm_task.config.num_fewshot or 0,
            apply_chat_template=self.frame.chat,
            chat_template=self._chat_template,
            gen_prefix=self.lm_task.doc_to_prefix(doc),
        )

    def _chat_template(self, messages: list[dict[str, Any]], **_: Any) -> str:
        """Render messages as lm-eval hands them over: a last assistant turn is only begun."""
        *turns, last = messages
        begun = last["role"] == "assistant"
        try:
            shown = self.frame.chatted(turns if begun else messages, last["content"] * begun)
            return self.frame.start(shown)
        except DataError as error:
            raise DataError(f"{self.task.name}: {error}") from error

    def _cut(self, user: str, prefix: str) -> tuple[Cut, int]:
        """What to take out of the middle so that the prompt fits (LongBench, pred.py).

        Returns
        -------
        tuple
            The cut, and how many tokens it costs.
        """
        room = self.max_positions - self.task.max_tokens
        room = room if self.length is None else min(room, self.length)
        whole = self.frame.count(user, prefix)
        over = whole - room
        if over <= 0:
            return NO_CUT, 0
        _, offsets = self.frame.tokenizer.encode_with_offsets(user)
        while True:
            keep = len(offsets) - over
            if keep <= 0:
                raise ConfigError(
                    f"{self.task.name}: {room} tokens leave no room beside its instructions"
                )
            head, tail = keep - keep // 2, keep // 2
            stop = offsets[len(offsets) - tail][0] if tail else len(user)
            cut = Cut(offsets[head - 1][1], stop)
            still = self.frame.count(user[: cut.start] + user[cut.stop :], prefix) - room
            if still <= 0:
                return cut, whole - (still + room)
            over += still

    def _prompt(self, text: Text, example_id: str) -> Prompt:
        return Prompt(
            example_id=example_id,
            text=text.text,
            token_ids=self.frame.ids(text.text),
            segments=text.segments,
            query=text.query,
        )

    def _pairs(
        self, doc: Mapping[str, Any], example_id: str, whole: Text | None
    ) -> tuple[Pair, ...]:
        """Contexts and continuations of a log-likelihood task."""
        instances = self.lm_task.construct_requests(
            doc=doc,
            ctx=self._context(doc) if whole is None else whole.text,
            metadata=(self.task.name, 0, 1),
            apply_chat_template=self.frame.chat,
            chat_template=self._chat_template,
        )
        instances = instances if isinstance(instances, list) else [instances]
        prompts: dict[tuple[int, ...], Prompt] = {}
        pairs: list[Pair] = []
        for instance in instances:
            try:
                text, ids, continuation = split_pair(self.frame, *instance.arguments[:2])
            except DataError as error:
                raise DataError(f"{example_id}: {error}") from error
            if ids not in prompts:
                name = example_id if not prompts else f"{example_id}/{len(prompts)}"
                prompts[ids] = Prompt(name, text, ids)
            pairs.append(Pair(prompts[ids], continuation))
        return tuple(pairs)

    def _check(self, example: Example) -> None:
        """Check that prompt and new tokens lie inside the model's range."""
        if example.reach > self.max_positions:
            raise DataError(
                f"{example.record.example_id}: prompt and new tokens take {example.reach} "
                f"positions, the model has {self.max_positions}; choose a model with a longer range"
            )

    def _record(
        self, index: int, doc: Mapping[str, Any], prompt: Prompt, cut_tokens: int
    ) -> ExampleRecord:
        references = references_of(self.lm_task, doc)
        facts = dict(doc.get("facts") or {})
        if cut_tokens:  # a cut prompt is another one than its data's: tables and reports say so
            facts["cut_tokens"] = cut_tokens
        # Scores by another metric than the usual one do not pair with those by the usual one.
        judged = [doc["scored_by"]] if doc.get("scored_by") else []
        content = json.dumps([prompt.text, *references, *judged]).encode()
        return ExampleRecord(
            example_id=prompt.example_id,
            task=self.task.name,
            length=self.length,
            seed=self.seed,
            index=index,
            text=prompt.text,
            token_count=len(prompt.token_ids),
            content_digest=hashlib.sha256(content).hexdigest(),
            cluster=self._cluster(doc, prompt),
            references=references,
            segments=None if prompt.segments is None else prompt.segments.to_json(),
            facts=facts,
        )

    def _cluster(self, doc: Mapping[str, Any], prompt: Prompt) -> str:
        """The shared context's id: the task's own, else a digest of documents or prompt.

        So identical rows under different ids are one cluster: they are one measurement.
        """
        if doc.get("cluster"):
            return str(doc["cluster"])
        documents = prompt.segments.documents if prompt.segments is not None else ()
        shared = "\0".join(prompt.text[a:b] for a, b in documents) or prompt.text
        return hashlib.sha256(shared.encode()).hexdigest()[:16]


def references_of(lm_task: Any, doc: Mapping[str, Any]) -> tuple[str, ...]:
    """Accepted answers: lm-eval's target as texts."""
    target = lm_task.doc_to_target(doc)
    if isinstance(target, int) and lm_task.config.doc_to_choice is not None:
        choices = lm_task.doc_to_choice(doc)
        target = choices[target] if 0 <= target < len(choices) else target
    return tuple(str(t) for t in target) if isinstance(target, (list, tuple)) else (str(target),)
