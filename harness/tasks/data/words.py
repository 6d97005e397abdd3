"""English word lists, from the wonderwords package, which RULER draws its own words from."""

from __future__ import annotations

from functools import cache


@cache
def words(category: str) -> tuple[str, ...]:
    """Return the ``noun``, ``adjective`` or ``verb`` list, sorted."""
    from wonderwords import RandomWord

    return tuple(sorted(set(RandomWord().filter(include_categories=[category]))))


@cache
def all_words() -> tuple[str, ...]:
    """Every word of the three lists once, sorted."""
    return tuple(sorted({w for c in ("noun", "adjective", "verb") for w in words(c)}))
