"""Strict reading of JSON and JSONL: every fault is one line with the file and the line number."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from harness.errors import DataError

BOM = b"\xef\xbb\xbf"
SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Source:
    """A file's bytes under the name that messages use, ``archive.zip:member`` inside an archive."""

    name: str
    data: bytes

    def fail(self, line: int, what: str) -> NoReturn:
        """Raise the one line."""
        raise DataError(f"{self.name} line {line}: {what}")

    def text(self) -> str:
        """Decode; UTF-8 without a byte order mark and with plain line ends is what is taken.

        Files of this kind are written by programs. A mark or a carriage return shows that
        something else has rewritten the file since, perhaps with other changes.
        """
        if not self.data.strip():
            self.fail(1, "the file is empty")
        if self.data.startswith(BOM):
            self.fail(1, "begins with a byte order mark; save the file as UTF-8 without one")
        self._no_carriage_returns()
        try:
            return self.data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = self.data.count(b"\n", 0, error.start) + 1
            self.fail(line, f"not UTF-8 text (byte 0x{self.data[error.start]:02x})")

    def _no_carriage_returns(self) -> None:
        at = self.data.find(b"\r")
        if at >= 0:
            line = self.data.count(b"\n", 0, at) + 1
            self.fail(line, "has a carriage return (CR LF line ends); convert it to LF")


def parse(source: Source, text: str, line: int) -> Any:
    """Parse one JSON value that starts on ``line``."""
    try:
        value = json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        where = line + error.lineno - 1
        source.fail(where, f"not valid JSON: {error.msg} (column {error.colno})")
    except _RefusedError as error:
        source.fail(line, str(error))
    except RecursionError:
        source.fail(line, "nested too deeply")
    except ValueError as error:  # a number of thousands of digits
        source.fail(line, f"not valid JSON: {error}")
    return value


class _RefusedError(Exception):
    """Legal to Python's parser, but not to us."""


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in pairs:
        if key in out:
            raise _RefusedError(f"the key {key!r} stands twice in one object")
        out[key] = value
    return out


def _no_constant(name: str) -> NoReturn:
    raise _RefusedError(f"{name} is not JSON")


def json_lines(source: Source) -> Iterator[tuple[int, Any]]:
    """Yield ``(line number, value)`` of a JSONL file; blank lines are passed over."""
    for number, line in enumerate(source.text().split("\n"), 1):
        if line.strip():
            value = parse(source, line, number)
            no_surrogates(source, number, line, value)
            yield number, value


def json_value(source: Source) -> Any:
    """Return the value of a JSON file."""
    text = source.text()
    value = parse(source, text, 1)
    no_surrogates(source, 1, text, value)
    return value


def item_lines(text: str, start: int, count: int) -> list[int]:
    """Line numbers of the ``count`` items of the JSON array that opens at ``text[start]``."""
    decoder = json.JSONDecoder()
    space = re.compile(r"[\s,]*")
    lines: list[int] = []
    line, seen, at = 1, 0, start + 1
    for _ in range(count):
        at = _end(space, text, at)
        line += text.count("\n", seen, at)
        seen = at
        lines.append(line)
        _, at = decoder.raw_decode(text, at)
    return lines


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return at if match is None else match.end()


def no_surrogates(source: Source, line: int, raw: str, value: Any) -> None:
    r"""Refuse lone surrogates, which ``\ud800`` escapes make and UTF-8 cannot hold."""
    if "\\u" not in raw:
        return
    for part in _strings(value):
        found = SURROGATE.search(part)
        if found:
            escape = f"\\u{ord(found.group()):04x}"
            before = raw.lower().find(escape)
            source.fail(
                line + raw.count("\n", 0, max(0, before)),
                f"holds a lone surrogate ({escape}), which is no character",
            )


def _strings(value: Any) -> Iterator[str]:
    todo = [value]
    while todo:
        one = todo.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            todo += [*one, *one.values()]
        elif isinstance(one, list):
            todo += one
