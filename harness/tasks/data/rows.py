"""The publishers' row formats, checked field by field."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("is blank: any prediction would match it")
    return text


Text = Annotated[str, Field(min_length=1)]
Answer = Annotated[str, AfterValidator(_not_blank)]
"""An accepted answer; an empty one would be found in anything."""
Answers = Annotated[list[Answer], Field(min_length=1)]


class Row(BaseModel):
    """Base of all rows: types are not converted; keys that we do not use are passed over."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


class LongBenchRow(Row):
    """One row of LongBench (THUDM/LongBench, README: data format)."""

    input: str
    context: Text
    answers: Answers
    length: Annotated[int, Field(ge=0)]
    dataset: Text
    language: Text
    all_classes: list[str] | None
    id: Annotated[str, Field(alias="_id", min_length=1)]


class HotpotRow(Row):
    """One question of HotpotQA or 2WikiMultihopQA (distractor setting)."""

    id: Annotated[str, Field(alias="_id", min_length=1)]
    question: Text
    answer: Answer
    context: Annotated[list[tuple[Text, list[str]]], Field(min_length=1)]
    supporting_facts: list[tuple[Text, int]]

    model_config = ConfigDict(strict=False, extra="ignore", frozen=True)

    @model_validator(mode="after")
    def _facts_exist(self) -> HotpotRow:
        titles = {title for title, _ in self.context}
        for title, index in self.supporting_facts:
            if title not in titles:
                raise ValueError(f"supporting_facts names {title!r}, which is not in context")
            if index < 0:
                raise ValueError(f"supporting_facts has the sentence number {index}")
        return self


class MusiqueParagraph(Row):
    """One paragraph of a MuSiQue question."""

    idx: int
    title: str
    paragraph_text: Text
    is_supporting: bool


class MusiqueRow(Row):
    """One question of MuSiQue."""

    id: Text
    question: Text
    answer: Answer
    answer_aliases: list[Answer] = []
    answerable: bool = True
    paragraphs: Annotated[list[MusiqueParagraph], Field(min_length=1)]


class SquadAnswer(Row):
    """One answer span."""

    text: Answer
    answer_start: Annotated[int, Field(ge=0)]


class SquadQuestion(Row):
    """One question about a paragraph."""

    id: Text
    question: Text
    answers: list[SquadAnswer]
    is_impossible: bool = False

    @model_validator(mode="after")
    def _answered(self) -> SquadQuestion:
        if not self.is_impossible and not self.answers:
            raise ValueError("an answerable question has no answers")
        return self


class SquadParagraph(Row):
    """One paragraph with its questions."""

    context: Text
    qas: list[SquadQuestion]

    @model_validator(mode="after")
    def _spans_match(self) -> SquadParagraph:
        for qa in self.qas:
            for answer in qa.answers:
                if answer.text not in self.context:
                    raise ValueError(f"answer {answer.text!r} of {qa.id} is not in its paragraph")
        return self


class SquadArticle(Row):
    """One article."""

    title: str
    paragraphs: Annotated[list[SquadParagraph], Field(min_length=1)]


class NqContext(Row):
    """One passage of the lost-in-the-middle format."""

    title: str
    text: Text
    isgold: bool


class NqRow(Row):
    """One question of the lost-in-the-middle format (nelson-liu/lost-in-the-middle)."""

    question: Text
    answers: Answers
    ctxs: Annotated[list[NqContext], Field(min_length=1)]

    @model_validator(mode="after")
    def _one_gold(self) -> NqRow:
        gold = sum(ctx.isgold for ctx in self.ctxs)
        if gold != 1:
            raise ValueError(f"ctxs has {gold} gold passages; the format has exactly one")
        return self


class RulerRow(Row):
    """One sample that NVIDIA/RULER's scripts generated."""

    index: int
    input: Text
    outputs: Answers
    answer_prefix: str = ""


def why(error: ValidationError) -> str:
    """Return the first fault as ``field: what``."""
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    what = str(first["msg"]).removeprefix("Value error, ")
    what = what[:1].lower() + what[1:]
    return f"{where}: {what}" if where else what


def check(model: type[Any], value: Any) -> Any:
    """Validate one value; a ValueError carries the reason."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise ValueError(why(error)) from error
