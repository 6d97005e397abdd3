"""Essays without end, made of a small grammar: where written ones run out, nothing is repeated.

A haystack that repeats itself is an easier one: whatever stands in it once stands out. These
essays are plain and say little, as filler should, but no sentence of them comes twice. Words and
sentences to fill in are in ``prose.json`` beside this file.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from harness.tasks.data.invented import CODAS, ONSETS, VOWELS

SENTENCES = 24
"""Sentences of one essay; each has its own town, teller and subject."""


@cache
def _material() -> dict[str, Any]:
    text = Path(__file__).with_name("prose.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def endless() -> Iterator[str]:
    """Yield sentences without end; the n-th is the same for everybody who asks."""
    told: set[str] = set()
    number = 0
    while True:
        for sentence in _essay(random.Random(f"prose/{number}")):
            if sentence not in told:
                told.add(sentence)
                yield sentence
        number += 1


def _essay(rng: random.Random) -> Iterator[str]:
    """One essay about one subject in one town."""
    material = _material()
    town, first, last = (_name(rng) for _ in range(3))
    fixed = {
        "town": town,
        "teller": f"{first} {last}",
        "subject": rng.choice(material["subjects"]),
    }
    opening, closing = rng.choice(material["openings"]), rng.choice(material["closings"])
    for template in (opening, *rng.sample(material["middles"], SENTENCES - 2), closing):
        yield _told(template, fixed, rng)


def _told(template: str, fixed: dict[str, str], rng: random.Random) -> str:
    """Fill a sentence in; ``{thing2}`` is another thing than ``{thing}``."""
    material = _material()
    words = dict(fixed)
    for name in ("adjectives", "people", "things"):
        one = "person" if name == "people" else name.removesuffix("s")
        words[one], words[f"{one}2"] = rng.sample(material[name], 2)
    season = rng.choice(material["seasons"])
    deed, done = rng.choice(list(material["deeds"].items()))
    words |= {"season": season, "Season": season[0].upper() + season[1:]}
    words |= {"deed": deed, "done": done, "lesson": rng.choice(material["lessons"])}
    return _articles(template.format(**words))


def _articles(sentence: str) -> str:
    """``a`` before a vowel becomes ``an``."""
    parts = sentence.split(" ")
    for at, (word, following) in enumerate(pairwise(parts)):
        if word in {"a", "A"} and following[:1].lower() in "aeiou":
            parts[at] = f"{word}n"
    return " ".join(parts)


def _name(rng: random.Random) -> str:
    """Invent a name of two syllables and an ending."""
    syllables = (rng.choice(ONSETS) + rng.choice(VOWELS) for _ in range(2))
    return ("".join(syllables) + rng.choice(CODAS)).capitalize()
