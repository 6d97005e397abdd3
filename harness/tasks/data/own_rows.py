"""A user's own rows: ``harness run --data FILE.jsonl`` (docs/tasks.md)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from harness.errors import DataError, nearest
from harness.tasks.data.formats import FORMATS
from harness.tasks.data.rows import Answer, RulerRow, why
from harness.tasks.data.strict import Source, json_lines
from harness.tasks.scoring.answers import ANSWER_METRICS, DEFAULT_METRIC, check_answer

Text = Annotated[str, Field(min_length=1)]
Kind = Literal["own", "longbench", "hotpotqa", "2wikimultihopqa", "musique",
               "nq_lost_in_the_middle", "ruler"]  # fmt: skip

EVERY = "string_match_all"
MIXED = "mixed"
"""The primary metric of rows that are scored by several; each row's own stands beside it."""

ONE = "Answer the question based on the given document. Only give me the answer."
SEVERAL = "Answer the question based on the given documents. Only give me the answer."


class OwnRow(BaseModel):
    """One row of a user's own.

    Either ``prompt`` is the whole user's turn, and ``documents``, ``question`` and ``evidence``
    name texts inside it; or the prompt is made of ``instruction``, documents and question.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, populate_by_name=True)

    id: str | int | None = Field(default=None, validation_alias=AliasChoices("id", "_id"))
    prompt: Text | None = None
    instruction: Text | None = None
    documents: list[Text] = Field(
        default=[], validation_alias=AliasChoices("documents", "document", "context")
    )
    question: Text | None = Field(default=None, validation_alias=AliasChoices("question", "input"))
    answers: list[Answer] = Field(
        min_length=1, validation_alias=AliasChoices("answers", "answer", "outputs")
    )
    metric: str | None = None
    evidence: list[Text] = []
    answer_prefix: str = ""
    facts: dict[str, Any] = {}

    @model_validator(mode="before")
    @classmethod
    def _lists(cls, raw: Any) -> Any:
        """Take a single text where a list is meant."""
        if isinstance(raw, dict):
            single = ("document", "documents", "context", "answer", "answers", "evidence")
            return {k: [v] if k in single and isinstance(v, str) else v for k, v in raw.items()}
        return raw

    @field_validator("metric")
    @classmethod
    def _known(cls, name: str | None) -> str | None:
        if name is not None and name not in ANSWER_METRICS:
            raise ValueError(f"unknown metric {name!r}{nearest(name, ANSWER_METRICS)}")
        return name

    @model_validator(mode="after")
    def _whole(self) -> OwnRow:
        if self.prompt is None and not (self.documents and self.question):
            raise ValueError("needs 'prompt', or a document and a 'question'")
        text = self.text
        for name in ("documents", "evidence"):
            if any(part not in text for part in getattr(self, name)):
                raise ValueError(f"{name}: a text is not in the prompt word for word")
        if self.question is not None and self.question not in text:
            raise ValueError("question: is not in the prompt word for word")
        return self

    @property
    def text(self) -> str:
        """The user's turn."""
        if self.prompt is not None:
            return self.prompt
        several = len(self.documents) > 1
        head = self.instruction or (SEVERAL if several else ONE)
        return f"{head}\n\n{self._shown}\n\nQuestion: {self.question}"

    @property
    def _shown(self) -> str:
        if len(self.documents) == 1:
            return self.documents[0]
        return "\n\n".join(f"Document [{i}]\n{d}" for i, d in enumerate(self.documents, 1))

    def doc(self, index: int) -> dict[str, Any]:
        """Return the lm-eval document."""
        return {
            "input": self.text,
            "gen_prefix": self.answer_prefix,
            "answers": self.answers,
            "documents": self.documents,
            "question": self.question or "",
            "evidence": self.evidence,
            "metric": self.metric,
            "scored_by": None if self.metric == DEFAULT_METRIC else self.metric,
            "facts": {"id": str(index if self.id is None else self.id)},
        }


class RulerSample(RulerRow):
    """A sample of RULER's scripts, shown as it is."""

    @property
    def metric(self) -> str:
        """RULER's metric: question answering, told by its prefix, has alternative answers."""
        return "string_match_part" if self.answer_prefix.strip() == "Answer:" else EVERY

    def doc(self, index: int) -> dict[str, Any]:
        """Return the lm-eval document."""
        return {
            "input": self.input,
            "gen_prefix": self.answer_prefix.strip(),
            "answers": self.outputs,
            "documents": [],
            "question": "",
            "evidence": [],
            "metric": self.metric,
            "facts": {"id": str(self.index), "row": index},
        }


def kind_of(path: Path) -> Kind:
    """Tell a user's own rows from files in a publisher's format, by the first row's keys.

    Raises
    ------
    DataError
        The file cannot be read, or is one that has to be imported (SQuAD).
    """
    source = _source(path)
    if not source.name.endswith(".jsonl") and source.data.lstrip().startswith(b"["):
        from harness.tasks.data.formats import read

        return _named(read(source).format)
    row = next(json_lines(source))[1]
    keys = set(row) if isinstance(row, dict) else set()
    for name, form in FORMATS.items():
        if len(form.keys & keys) == len(form.keys) or _is_ruler(name, keys):
            return _named(name)
    if keys <= {"version", "data"}:
        raise DataError(f"{path}: SQuAD's format; import it (harness data import) for ruler_qa_1")
    return "own"


def _is_ruler(name: str, keys: set[str]) -> bool:
    return name == "ruler" and {"index", "input", "outputs"} <= keys


def _named(name: str) -> Kind:
    for kind in ("longbench", "hotpotqa", "2wikimultihopqa", "musique", "nq_lost_in_the_middle"):
        if name == kind:
            return kind
    return "ruler"


def read_own_rows(path: Path, metric: str | None = None) -> list[OwnRow | RulerSample]:
    """Read and check a file of own rows or RULER samples.

    Parameters
    ----------
    metric
        Key of :data:`harness.tasks.scoring.answers.ANSWER_METRICS`, for rows that name none.

    Raises
    ------
    DataError
        The first fault, with the file's name and the line number.
    """
    source = _source(path)
    model: type[OwnRow | RulerSample] = RulerSample if kind_of(path) == "ruler" else OwnRow
    rows = [_checked(source, line, model, value, metric) for line, value in json_lines(source)]
    seen: set[str | int] = set()
    for row in rows:
        identity = row.index if isinstance(row, RulerSample) else row.id
        if identity is not None and identity in seen:
            raise DataError(f"{path}: the id {identity!r} stands twice")
        if identity is not None:
            seen.add(identity)
    return rows


def metric_of(rows: Sequence[OwnRow | RulerSample]) -> str:
    """Name of the rows' primary metric in records: :data:`MIXED` where they differ."""
    names = {row.metric or DEFAULT_METRIC for row in rows}
    if len(names) > 1:
        return MIXED
    (name,) = names
    return ANSWER_METRICS[name].name if name in ANSWER_METRICS else name


def _checked(source: Source, line: int, model: type[Any], value: Any, metric: str | None) -> Any:
    if not isinstance(value, dict):
        source.fail(line, "a row is a JSON object")
    try:
        row = model.model_validate(value)
        return row if isinstance(row, RulerSample) else _scorable(row, metric)
    except DataError as error:
        source.fail(line, f"answers: {error}")
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if first["type"] == "extra_forbidden":
            key = str(first["loc"][0])
            source.fail(line, f"unknown key '{key}'{nearest(key, KEYS)}")
        source.fail(line, why(error))


def _scorable(row: OwnRow, metric: str | None) -> OwnRow:
    """Give a row its metric, and check every answer under it."""
    chosen = row.metric or metric or DEFAULT_METRIC
    for answer in row.answers:
        check_answer(chosen, answer)
    return row.model_copy(update={"metric": chosen})


KEYS = ("id", "prompt", "instruction", "documents", "document", "context", "question", "input",
        "answers", "answer", "metric", "evidence", "answer_prefix", "facts")  # fmt: skip


def _source(path: Path) -> Source:
    try:
        return Source(str(path), path.read_bytes())
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from error
