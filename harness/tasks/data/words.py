"""English word lists: wonderwords', which RULER draws its words from, and a dictionary's."""

from __future__ import annotations

from functools import cache


@cache
def words(category: str) -> tuple[str, ...]:
    """Return the ``noun``, ``adjective`` or ``verb`` list, sorted."""
    from wonderwords import RandomWord

    return tuple(sorted(set(RandomWord().filter(include_categories=[category]))))


@cache
def all_words() -> tuple[str, ...]:
    """Every word of the three lists once, sorted: about 8,000."""
    return tuple(sorted({w for c in ("noun", "adjective", "verb") for w in words(c)}))


@cache
def dictionary() -> tuple[str, ...]:
    """Webster's Second International of 1934 (public domain), sorted: about 234,000 words.

    RULER has a list of that kind for samples that need more words than wonderwords has.
    """
    from english_words import get_english_words_set

    found = get_english_words_set(["web2"], lower=True)
    return tuple(sorted(word for word in found if word.isalpha()))
