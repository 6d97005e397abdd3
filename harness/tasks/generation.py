"""The one loop behind every generated task: draw a sample, fill it to the length, check it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

from harness.errors import DataError
from harness.models.tokenizer import Tokenizer
from harness.tasks.framing import Frame, largest_fit
from harness.tasks.official import Measure, Stepped, common_size, stepped_down, uncounted

DEFAULT_COUNT = 500
"""Samples a task and length where no limit is given (RULER, scripts/config_tasks.sh)."""

DEFAULT_LENGTH = 4096

TOKENIZER_KEYS = ("tokenizer", "target", "pretrained", "model")
"""Where lm-eval's metadata may name the tokenizer."""


class TooShortError(DataError):
    """The length leaves no room for the task's own text; ``minimum`` is the least that does."""

    def __init__(self, task: str, length: int, minimum: int) -> None:
        super().__init__(
            f"length {length} is too short for {task}: the smallest that works is {minimum} tokens "
            f"(--length {minimum})"
        )
        self.minimum = minimum


class Sample(Protocol):
    """One sample whose filler can be given in any number of units.

    Attributes
    ----------
    prefix
        Text that begins the answer.
    low, high
        Fewest and most units of filler.
    unit
        About how many tokens a unit takes.
    slack
        Share of the length that may stay unused, where closing the gap would cost time.
    """

    prefix: str
    low: int
    high: int
    unit: float
    slack: float

    def guess(self, budget: int) -> int:
        """About how many units make a prompt of ``budget`` tokens."""

    def text(self, units: int) -> str:
        """The user's turn with that many units; equal units give equal text."""

    def doc(self, units: int) -> dict[str, Any]:
        """The lm-eval document, ``input`` and ``gen_prefix`` aside."""


Draw = Callable[[random.Random, int], Sample]
"""Draws sample ``index`` from its own generator of random numbers."""


@dataclass(frozen=True)
class Request:
    """What a task's ``custom_dataset`` function is asked for.

    For tasks that take their prompts from data ``lengths`` is what a prompt may take at most.
    ``official`` is the number of new tokens that NVIDIA's scripts count into a length, where
    prompts are filled as they fill them (:mod:`harness.tasks.official`); None otherwise.
    """

    frame: Frame
    lengths: tuple[int, ...]
    seed: int
    count: int
    task: str
    official: int | None = None

    def asked(self, length: int) -> int:
        """The length that a user names, for a prompt of at most ``length`` tokens."""
        if self.official is None:
            return length
        return length + self.official - uncounted(self.frame)

    def too_short(self, length: int, minimum: int) -> TooShortError:
        """The error of a length that leaves no room for the task's own text."""
        return TooShortError(self.task, self.asked(length), self.asked(minimum))

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any], *, task: str) -> Request:
        """Read the request out of an lm-eval task's metadata.

        The harness passes its own ``request``. Under lm-eval's own command line the metadata are
        ``--metadata`` and the model's arguments: ``tokenizer``, ``target``, ``pretrained`` or
        ``preset``; ``max_seq_lengths``, ``seed`` and ``count``.
        """
        own = metadata.get("request")
        if isinstance(own, cls):
            return own
        path = next((metadata[k] for k in TOKENIZER_KEYS if metadata.get(k)), None)
        if path is None and metadata.get("preset"):
            from harness.models.presets import resolve

            path = str(resolve(str(metadata["preset"])).target)
        if not isinstance(path, str):
            raise DataError(
                f"{task}: its prompts are sized in tokens; name a tokenizer, for instance "
                '--metadata \'{"tokenizer": "MODEL", "max_seq_lengths": [4096]}\''
            )
        chat = bool(metadata.get("apply_chat_template", True))
        return cls(
            frame=Frame.of(Tokenizer.load(path), chat=chat),
            lengths=tuple(metadata.get("max_seq_lengths", (DEFAULT_LENGTH,))),
            seed=int(metadata.get("seed", 0)),
            count=int(metadata.get("count", DEFAULT_COUNT)),
            task=task,
        )

    def at_most(self, available: int) -> Request:
        """The same request for no more samples than there are questions."""
        return replace(self, count=min(self.count, available))


def generate(draw: Draw, request: Request, *, name: str) -> dict[str, Any]:
    """Generate every sample of a request as lm-eval's ``custom_dataset`` expects it.

    Sample i depends on (name, seed, i, length, tokenizer) and on nothing else, so a smaller
    limit gives a prefix of the same samples.

    Returns
    -------
    dict
        ``{"test": datasets.Dataset}``.

    Raises
    ------
    TooShortError
        Where a sample cannot be made that short.
    """
    import datasets

    docs = []
    for length in request.lengths:
        fill = _largest if request.official is None else _official(draw, request, name, length)
        docs += [
            _one(draw, request, fill, name=name, index=index, length=length)
            for index in range(request.count)
        ]
    return {"test": datasets.Dataset.from_list(docs)}


def rng_for(name: str, seed: int, index: int) -> random.Random:
    """Return sample ``index``'s own generator; a string seed hashes the same on every machine."""
    return random.Random(f"{name}/{seed}/{index}")


class _Measured(dict[int, tuple[str, tuple[int, ...]]]):
    """Prompts of one sample by their units, each rendered and encoded once."""

    def __init__(self, sample: Sample, frame: Frame) -> None:
        super().__init__()
        self.sample, self.frame = sample, frame

    def __missing__(self, units: int) -> tuple[str, tuple[int, ...]]:
        text = self.frame.render(self.sample.text(units), self.sample.prefix)
        self[units] = text, self.frame.tokenizer.encode(text)
        return self[units]

    def tokens(self, units: int) -> int:
        """Tokens of the prompt with that many units."""
        return len(self[units][1])


Fill = Callable[[Sample, Measure, int], int | None]
"""Chooses a sample's units for a length in tokens; None where nothing fits."""


def _largest(sample: Sample, measure: Measure, length: int) -> int | None:
    """The most that fits."""
    return largest_fit(
        measure,
        length,
        guess=sample.guess(length),
        unit=sample.unit,
        low=sample.low,
        high=sample.high,
        slack=sample.slack * length,
    )


def _official(draw: Draw, request: Request, name: str, length: int) -> Fill:
    """As NVIDIA's scripts: one size for all, found on a sample of its own."""
    pilot = cast("Stepped", draw(rng_for(f"{name}/size", request.seed, 0), 0))
    pilot.guess(length)  # a sample learns from it what its length is
    steps = pilot.steps(request.asked(length), length)
    tokens = _Measured(cast("Sample", pilot), request.frame).tokens
    size = common_size(pilot, tokens, steps, length)

    def fill(sample: Sample, measure: Measure, length: int) -> int | None:
        sample.guess(length)
        return stepped_down(measure, min(size, sample.high), steps, length, sample.low)

    return fill


def _one(
    draw: Draw, request: Request, fill: Fill, *, name: str, index: int, length: int
) -> dict[str, Any]:
    sample = draw(rng_for(name, request.seed, index), index)
    measured = _Measured(sample, request.frame)
    units = fill(sample, measured.tokens, length)
    if units is None:
        raise request.too_short(length, _minimum(draw, request, name))
    used = measured.tokens(units)
    if units == sample.high and used < 0.98 * length:
        raise DataError(
            f"length {request.asked(length)} is too long for {request.task}: its words make "
            f"prompts of at most {request.asked(used)} tokens"
        )
    request.frame.remember(*measured[units])
    doc = sample.doc(units)
    if request.official is not None:
        doc["facts"] = {**doc.get("facts", {}), "official_length": True}
    return {
        "index": index,
        "input": sample.text(units),
        "gen_prefix": sample.prefix,
        "max_length": request.asked(length),
        **doc,
    }


def _minimum(draw: Draw, request: Request, name: str) -> int:
    """Tokens of the longest of the request's samples when each is at its shortest."""

    def least(index: int) -> int:
        sample = draw(rng_for(name, request.seed, index), index)
        return request.frame.count(sample.text(sample.low), sample.prefix)

    return max(least(index) for index in range(request.count))
