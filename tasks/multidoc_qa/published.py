"""HotpotQA, 2WikiMultihopQA, MuSiQue, and Natural Questions as in lost-in-the-middle.

Each question comes with its own documents, gold ones marked. ``depth`` moves the gold documents
together. Distractors are left out, from the end, until a prompt fits ``--length``, or else the
model's range.
"""

import random
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.errors import DataError
from harness.tasks.data.readers import read_file, read_set
from harness.tasks.documents import Document, at_depth, cluster_of, evidence, facts, show
from harness.tasks.framing import Frame
from harness.tasks.generation import Request

SHORT = (
    "Answer the question based on the given documents. Only give me the answer and do not output "
    "any other words.\n\nThe following are given documents.\n\n",
    "\n\nAnswer the question based on the given documents. Only give me the answer and do not "
    "output any other words.\n\nQuestion: {question}",
)
SEARCH = (
    "Write a high-quality answer for the given question using only the provided search results "
    "(some of which might be irrelevant).\n\n",
    "\n\nQuestion: {question}",
)
"""The prompt of Liu et al., "Lost in the Middle" (arXiv 2307.03172)."""
PREFIX = "Answer:"
DEPTHS = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Item:
    """One question with its documents."""

    id: str
    question: str
    answers: tuple[str, ...]
    documents: tuple[Document, ...]


def hotpot(rows: Sequence[Any]) -> Iterator[Item]:
    """HotpotQA and 2WikiMultihopQA: paragraphs as sentences, supporting ones named."""
    for row in rows:
        wanted = set(row.supporting_facts)
        documents = tuple(
            Document(
                title,
                "".join(sentences).strip(),
                gold=any(t == title for t, _ in wanted),
                facts=tuple(s.strip() for i, s in enumerate(sentences) if (title, i) in wanted),
            )
            for title, sentences in row.context
        )
        yield Item(row.id, row.question.strip(), (row.answer,), documents)


def musique(rows: Sequence[Any]) -> Iterator[Item]:
    """MuSiQue's answerable questions: supporting paragraphs are gold as a whole."""
    for row in rows:
        if row.answerable:
            documents = tuple(
                Document(p.title, p.paragraph_text, gold=p.is_supporting) for p in row.paragraphs
            )
            answers = tuple(dict.fromkeys((row.answer, *row.answer_aliases)))
            yield Item(row.id, row.question, answers, documents)


def natural_questions(rows: Sequence[Any]) -> Iterator[Item]:
    """Lost-in-the-middle's files: one gold passage among retrieved ones."""
    for index, row in enumerate(rows):
        documents = tuple(Document(c.title, c.text, gold=c.isgold) for c in row.ctxs)
        yield Item(str(index), row.question, tuple(row.answers), documents)


READERS: Mapping[str, Callable[[Sequence[Any]], Iterator[Item]]] = {
    "hotpotqa": hotpot,
    "2wikimultihopqa": hotpot,
    "musique": musique,
    "nq_lost_in_the_middle": natural_questions,
}


def dataset(
    *, source: str, depth: float | str = "given", file: str | None = None, **metadata: Any
) -> dict[str, Any]:
    """Return an installed data set's questions, or a file's; lm-eval's ``custom_dataset``.

    ``depth`` is ``given`` (the data's own order), ``each`` (0, ¼, ½, ¾, 1 in turn), or a number
    in [0, 1].
    """
    import datasets

    items = list(READERS[source](read_set(source) if file is None else read_file(file)))
    if not items:
        raise DataError(f"{source}: no answerable question in the data that are here")
    request = metadata.get("request")
    if isinstance(request, Request):
        items = chosen(items, request, source)
    prompt = SEARCH if source.startswith("nq") else SHORT
    fit = Fit(request if isinstance(request, Request) else None, prompt)
    docs = [build(item, place(item, index, depth), prompt, fit) for index, item in enumerate(items)]
    return {"test": datasets.Dataset.from_list(docs)}


def chosen(items: list[Item], request: Request, source: str) -> list[Item]:
    """The questions to use: all, or as many as asked for, drawn by the data seed."""
    if request.count >= len(items):
        return items
    indices = random.Random(f"{source}/{request.seed}").sample(range(len(items)), request.count)
    return [items[index] for index in sorted(indices)]


def place(item: Item, index: int, depth: float | str) -> list[Document]:
    """Order an item's documents."""
    if depth == "given":
        return list(item.documents)
    wanted = DEPTHS[index % len(DEPTHS)] if depth == "each" else float(depth)
    if not 0 <= wanted <= 1:
        raise DataError(f"depth: {wanted} is not in [0, 1]")
    return at_depth(item.documents, wanted)


@dataclass(frozen=True)
class Fit:
    """Leaves distractors out until a prompt fits the length asked for, if one is."""

    request: Request | None
    prompt: tuple[str, str]

    def __call__(self, documents: list[Document], question: str, item: str) -> list[Document]:
        """Return the documents that fit, in order; gold ones always stay."""
        if self.request is None:
            return documents
        frame, length = self.request.frame, self.request.lengths[0]
        spare = [index for index, document in enumerate(documents) if not document.gold]

        def without(left_out: int) -> list[Document]:
            gone = set(spare[len(spare) - left_out :])
            return [d for index, d in enumerate(documents) if index not in gone]

        def fits(left_out: int) -> bool:
            return self._count(frame, without(left_out), question) <= length

        if not fits(len(spare)):
            needed = self._count(frame, without(len(spare)), question)
            raise DataError(
                f"length {length} is too short for question {item} of {self.request.task}: "
                f"its gold documents take {needed} tokens"
            )
        return without(bisect_left(range(len(spare)), True, key=fits))

    def lost(self, given: list[Document], kept: list[Document], question: str) -> int:
        """Tokens of the documents that were left out."""
        if self.request is None or len(kept) == len(given):
            return 0
        frame = self.request.frame
        return self._count(frame, given, question) - self._count(frame, kept, question)

    def _count(self, frame: Frame, documents: list[Document], question: str) -> int:
        return frame.count(text(documents, question, self.prompt), PREFIX)


def text(documents: Sequence[Document], question: str, prompt: tuple[str, str]) -> str:
    """The user's turn."""
    head, tail = prompt
    return head + "\n".join(show(documents)) + tail.format(question=question)


def build(
    item: Item, documents: list[Document], prompt: tuple[str, str], fit: Fit
) -> dict[str, Any]:
    """Make one lm-eval document."""
    kept = fit(documents, item.question, item.id)
    lost = fit.lost(documents, kept, item.question)
    return {
        "input": text(kept, item.question, prompt),
        "gen_prefix": PREFIX,
        "answers": list(item.answers),
        "documents": show(kept),
        "question": item.question,
        "evidence": evidence(kept),
        "cluster": cluster_of(item.documents),
        "facts": {**facts(kept), "id": item.id, "cut_tokens": lost},
    }
