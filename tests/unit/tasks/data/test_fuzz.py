"""Whatever happens to a file's bytes: it is read, or refused in one line."""

from __future__ import annotations

import gzip
import io
import json
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.tasks.data.files import (
    HOTPOT,
    LONGBENCH,
    MUSIQUE,
    NQ,
    RULER,
    SQUAD,
    lines,
    numbered,
    pretty,
)

from harness.errors import DataError
from harness.tasks.data.archives import gunzip, unzip
from harness.tasks.data.formats import read
from harness.tasks.data.strict import Source

GOOD = {
    "a.jsonl": lines(*numbered(LONGBENCH, "_id")),
    "hotpot.json": pretty(numbered(HOTPOT, "_id")),
    "musique.jsonl": lines(*numbered(MUSIQUE, "id")),
    "nq.jsonl": lines(NQ, NQ),
    "ruler.jsonl": lines(*numbered(RULER, "index")),
    "squad.json": json.dumps(SQUAD),
}


def refusal(*sources: Source) -> str:
    """Read files; return the refusal, empty where there is none. Other errors get through."""
    try:
        for source in sources:
            read(source)
    except DataError as error:
        return str(error)
    return ""


def check_refusal(line: str, name: str) -> None:
    """A refusal is one line that begins with the file's name."""
    assert "\n" not in line
    assert not line or line.startswith(name)


@pytest.mark.parametrize("name", GOOD)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_changed_bytes(name: str, data: st.DataObject) -> None:
    """Cut, overwritten and doubled parts."""
    raw = bytearray(GOOD[name].encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw)))
        end = data.draw(st.integers(at, min(len(raw), at + 40)))
        raw[at:end] = data.draw(st.binary(max_size=6)) + raw[at:end] * data.draw(st.integers(0, 2))
    check_refusal(refusal(Source(name, bytes(raw))), name)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("name", [n for n in GOOD if n.endswith("l")])
@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_changed_values(name: str, data: st.DataObject) -> None:
    """Any value in the place of any field of any row."""
    rows = [json.loads(line) for line in GOOD[name].splitlines()]
    row = data.draw(st.sampled_from(rows))
    row[data.draw(st.sampled_from(sorted(row)))] = data.draw(JSON)
    text = "\n".join(json.dumps(r) for r in rows)
    check_refusal(refusal(Source(name, text.encode())), name)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_changed_archives(data: st.DataObject) -> None:
    """Archives with changed bytes never do more than fail."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("data/qasper.jsonl", GOOD["a.jsonl"])
    packed = data.draw(
        st.sampled_from([buffer.getvalue(), gzip.compress(GOOD["nq.jsonl"].encode())])
    )
    raw = bytearray(packed)
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    check_refusal(unpacked(Source("a.zip", bytes(raw)), zipped=packed.startswith(b"PK")), "a.zip")


def unpacked(source: Source, *, zipped: bool) -> str:
    """Unpack and read; return the refusal, empty where there is none."""
    try:
        members = list(unzip(source)) if zipped else [gunzip(source)]
    except DataError as error:
        return str(error)
    return refusal(*members)
