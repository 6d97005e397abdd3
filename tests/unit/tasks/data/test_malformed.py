"""Broken files of every supported format: one clear line each, and nothing is written."""

# ruff: noqa: E501 — the table of faults reads best with one fault a line.

from __future__ import annotations

import gzip
import io
import json
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from unit.tasks.data.files import (
    HOTPOT,
    LONGBENCH,
    MUSIQUE,
    NQ,
    RULER,
    SQUAD,
    WIKI,
    lines,
    numbered,
    pretty,
    without,
)

from harness.errors import DataError, ExitCode
from harness.tasks.data import archives
from harness.tasks.data.importing import import_path
from harness.tasks.data.library import all_installed, sets_dir

LB = numbered(LONGBENCH, "_id")
HP = numbered(HOTPOT, "_id")
MQ = numbered(MUSIQUE, "id")
RU = numbered(RULER, "index")


def squad(change: Callable[[dict[str, object]], None]) -> str:
    """SQuAD's file, changed in its second article."""
    value = json.loads(json.dumps(SQUAD))
    change(value["data"][1])
    return pretty(value)


def qa(article: dict[str, object]) -> dict[str, object]:
    """The one question of an article."""
    return article["paragraphs"][0]["qas"][0]  # type: ignore[index,no-any-return]


# name of the file → (content, line, what the message must say)
TEXT_FAULTS: dict[str, tuple[str, str | bytes, int, str]] = {
    "empty": ("a.jsonl", "", 1, "empty"),
    "only white space": ("a.jsonl", "\n \n", 1, "empty"),
    "empty list": ("a.json", "[]", 1, "empty list"),
    "byte order mark": ("a.jsonl", b"\xef\xbb\xbf" + lines(*LB).encode(), 1, "byte order mark"),
    "byte order mark in JSON": ("a.json", b"\xef\xbb\xbf" + pretty(HP).encode(), 1, "order mark"),
    "CR LF": ("a.jsonl", lines(*LB).replace("\n", "\r\n"), 1, "carriage return"),
    "CR LF from line 2 on": ("a.jsonl", lines(LB[0]) + lines(LB[1]).replace("\n", "\r\n"), 2, "CR LF"),
    "CR LF in JSON": ("a.json", pretty(SQUAD).replace("\n", "\r\n"), 1, "carriage return"),
    "not UTF-8": ("a.jsonl", lines(LB[0]).encode() + b'{"input": "\xff\xfe"}\n', 2, "UTF-8"),
    "UTF-16": ("a.jsonl", lines(*LB).encode("utf-16-le"), 1, "JSON|UTF-8"),
    "lone surrogate": ("a.jsonl", lines(LB[0]) + lines(LB[1]).replace('"q"', '"\\ud800"'), 2, "ud800"),
    "low surrogate": ("a.jsonl", lines(LB[0]).replace('"c"', '"\\udc00x"'), 1, "surrogate"),
    "surrogate in JSON": ("a.json", pretty(HP).replace("Bob knows", "\\ud834 knows", 1), 29, "ud834"),
    "truncated row": ("bad.jsonl", lines(*LB[:2]) + '{"input":"q","context":"c","answers":["a"],', 3, "JSON"),
    "truncated in a text": ("a.jsonl", lines(*LB)[:-40], 3, "not valid JSON"),
    "truncated JSON": ("a.json", pretty(HP)[:-30], 111, "not valid JSON"),
    "truncated SQuAD": ("a.json", pretty(SQUAD)[:-60], 38, "not valid JSON"),
    "two values on a line": ("a.jsonl", lines(LB[0]) + lines(LB[1])[:-1] + lines(LB[2]), 2, "JSON"),
    "key twice": ("a.jsonl", lines(LB[0]).replace('{"input"', '{"input": "x", "input"'), 1, "twice"),
    "NaN": ("a.jsonl", lines(*LB[:2]) + lines(LB[2]).replace("1,", "NaN,", 1), 3, "NaN"),
    "nested too deeply": ("a.jsonl", lines(LB[0]) + "[" * 200_000 + "\n", 2, "deep|JSON"),
    "a number of many digits": ("a.jsonl", lines(LB[0]).replace('"length": 1', '"length": ' + "9" * 5000), 1, "JSON"),
    "a list as row": ("a.jsonl", lines(LB[0], [1, 2]), 2, "object, not a list"),
    "text as row": ("a.jsonl", lines("hello"), 1, "object, not text"),
    "null as row": ("a.jsonl", lines(LB[0], None), 2, "not null"),
    "a number alone": ("a.json", "7", 1, "no format"),
    "unknown format": ("a.jsonl", lines({"name": "x", "value": 3}), 1, "no format .* known: Long"),
    "CSV": ("a.csv", "id,question\n1,Who?\n", 1, "not valid JSON"),
    "LongBench: no answers": ("a.jsonl", lines(LB[0], without(LB[1], "answers")), 2, "answers: field required"),
    "LongBench: empty answers": ("a.jsonl", lines({**LB[0], "answers": []}), 1, "answers"),
    "LongBench: answers a text": ("a.jsonl", lines(LB[0], {**LB[1], "answers": "a"}), 2, "answers"),
    "LongBench: answer a number": ("a.jsonl", lines(LB[0], {**LB[1], "answers": [3]}), 2, "answers.0"),
    "LongBench: a blank answer": ("a.jsonl", lines(LB[0], {**LB[1], "answers": ["a", " "]}), 2, "answers.1: is blank"),
    "HotpotQA: a blank answer": ("a.json", pretty([{**HP[0], "answer": ""}]), 2, "answer: is blank"),
    "MuSiQue: a blank alias": ("a.jsonl", lines({**MQ[0], "answer_aliases": [""]}), 1, "answer_aliases.0: is blank"),
    "NQ: a blank answer": ("a.jsonl", lines(NQ, {**NQ, "answers": [""]}), 2, "answers.0: is blank"),
    "RULER: a blank reference": ("a.jsonl", lines(RU[0], {**RU[1], "outputs": [""]}), 2, "outputs.0: is blank"),
    "LongBench: length a text": ("a.jsonl", lines({**LB[0], "length": "1"}), 1, "length"),
    "LongBench: length negative": ("a.jsonl", lines({**LB[0], "length": -1}), 1, "length"),
    "LongBench: context empty": ("a.jsonl", lines({**LB[0], "context": ""}), 1, "context"),
    "LongBench: context null": ("a.jsonl", lines({**LB[0], "context": None}), 1, "context"),
    "LongBench: unknown data set": ("a.jsonl", lines({**LB[0], "dataset": "qasperr"}), 1, "qasperr"),
    "LongBench: id twice": ("a.jsonl", lines(LB[0], LB[1], LB[0]), 3, "was on line 1"),
    "LongBench: no class names": ("a.jsonl", lines({**LB[0], "dataset": "trec"}), 1, "all_classes"),
    "LongBench: no paragraph number": ("a.jsonl", lines({**LB[0], "dataset": "passage_retrieval_zh", "answers": ["第三段"]}), 1, "paragraph"),
    "HotpotQA: no context": ("a.json", pretty([HP[0], without(HP[1], "context")]), 40, "context: field"),
    "HotpotQA: context of a wrong shape": ("a.json", pretty([{**HP[0], "context": [["A"]]}]), 2, "context.0"),
    "HotpotQA: sentences a text": ("a.json", pretty([{**HP[0], "context": [["A", "no list"]]}]), 2, "context.0"),
    "HotpotQA: fact about nothing": ("a.json", pretty([{**HP[0], "supporting_facts": [["Z", 0]]}]), 2, "'Z'"),
    "HotpotQA: sentence before the first": ("a.json", pretty([{**HP[0], "supporting_facts": [["A", -1]]}]), 2, "-1"),
    "HotpotQA: id twice": ("a.json", pretty([HP[0], HP[1], HP[0]]), 78, "already"),
    "HotpotQA: row a text": ("a.json", pretty([HP[0], "x"]), 40, "object"),
    "2WikiMultihopQA: no answer": ("a.json", pretty([without(WIKI, "answer")]), 2, "answer"),
    "MuSiQue: no paragraphs": ("a.jsonl", lines(MQ[0], without(MQ[1], "paragraphs")), 2, "paragraphs"),
    "MuSiQue: empty paragraphs": ("a.jsonl", lines({**MQ[0], "paragraphs": []}), 1, "paragraphs"),
    "MuSiQue: support a text": ("a.jsonl", lines({**MQ[0], "paragraphs": [{**MUSIQUE["paragraphs"][0], "is_supporting": "yes"}]}), 1, "is_supporting"),
    "MuSiQue: id twice": ("a.jsonl", lines(MQ[0], MQ[0]), 2, "already"),
    "NQ: two gold passages": ("a.jsonl", lines({**NQ, "ctxs": [NQ["ctxs"][0]] * 2}), 1, "2 gold"),
    "NQ: no gold passage": ("a.jsonl", lines(NQ, {**NQ, "ctxs": NQ["ctxs"][1:]}), 2, "0 gold"),
    "RULER: no outputs": ("a.jsonl", lines(RU[0], {**RU[1], "outputs": []}), 2, "outputs"),
    "RULER: index twice": ("a.jsonl", lines(RU[0], RU[0]), 2, "already"),
    "SQuAD: no articles": ("a.json", '{"version": "1", "data": []}', 1, "empty"),
    "SQuAD: no paragraphs": ("a.json", squad(lambda a: a.pop("paragraphs") and None), 25, "paragraphs"),
    "SQuAD: no answers": ("a.json", squad(lambda a: qa(a).update(answers=[])), 25, "no answers"),
    "SQuAD: answer not in its paragraph": ("a.json", squad(lambda a: qa(a).update(answers=[{"text": "Eve", "answer_start": 0}])), 25, "'Eve'"),
    "SQuAD: start a text": ("a.json", squad(lambda a: qa(a).update(answers=[{"text": "Bob", "answer_start": "0"}])), 25, "answer_start"),
    "SQuAD: id twice": ("a.json", squad(lambda a: qa(a).update(id="s1")), 25, "already"),
}  # fmt: skip


def refused(path: Path, match: str) -> str:
    """Import must fail with one line and exit code 2, and install nothing."""
    with pytest.raises(DataError, match=match) as error:
        import_path(path)
    assert error.value.code is ExitCode.USAGE
    assert "\n" not in str(error.value)
    assert all_installed() == []
    assert not sets_dir().exists() or not any(sets_dir().iterdir())
    return str(error.value)


@pytest.fixture(autouse=True)
def _own_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.mark.parametrize("fault", TEXT_FAULTS)
def test_a_broken_file_is_refused(fault: str, tmp_path: Path) -> None:
    """The line names the file, the line number and the fault."""
    name, content, line, match = TEXT_FAULTS[fault]
    path = tmp_path / name
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    message = refused(path, match)
    assert f"{name} line {line}: " in message


def test_there_are_sixty_of_them() -> None:
    """The list covers every format, and at least 60 faults."""
    assert len(TEXT_FAULTS) + len(ZIP_FAULTS) >= 60


def archive(*members: tuple[str | zipfile.ZipInfo, str]) -> bytes:
    """A zip archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as out:
        for name, text in members:
            out.writestr(name, text)
    return buffer.getvalue()


def link(name: str) -> zipfile.ZipInfo:
    """A member that is a symbolic link."""
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


GOOD = ("data/qasper.jsonl", lines(*LB))
BOMB = '{"input": "' + "a" * (3 * 1024**2) + '"}'
ZIP_FAULTS: dict[str, tuple[bytes, str]] = {
    "no zip at all": (b"PK\x03\x04 and then nothing", "damaged zip"),
    "cut off": (archive(GOOD)[:-30], "damaged zip"),
    "holds nothing": (archive(), "no files"),
    "leads out": (archive(GOOD, ("../../evil.jsonl", lines(*LB))), "leads out"),
    "leads out by backslashes": (archive(("..\\evil.jsonl", lines(*LB))), "leads out"),
    "absolute": (archive(GOOD, ("/etc/evil.jsonl", lines(*LB))), "leads out"),
    "another drive": (archive(("C:evil.jsonl", lines(*LB))), "leads out"),
    "a link": (archive(GOOD, (link("data/link.jsonl"), "/etc/passwd")), "link"),
    "a bomb": (archive(("data/bomb.jsonl", BOMB)), "bomb"),
    "another kind of file": (archive(GOOD, ("data/run.sh", "rm -rf x")), "neither .json"),
    "a member twice": (archive(GOOD, ("data/qasper2.jsonl", lines(*LB))), "two of its files"),
    "one bad row": (
        archive(GOOD, ("data/musique.jsonl", lines({**LB[0], "dataset": "musique"}) + "{")),
        "data/musique.jsonl line 2: not valid JSON",
    ),
}


@pytest.mark.parametrize("fault", ZIP_FAULTS)
def test_a_bad_archive_is_refused_whole(fault: str, tmp_path: Path) -> None:
    """Nothing of an archive is installed where any of it is wrong, nor written anywhere else."""
    content, match = ZIP_FAULTS[fault]
    path = tmp_path / "in" / "a.zip"
    path.parent.mkdir()
    path.write_bytes(content)
    assert "a.zip" in refused(path, match)
    assert [p.name for p in tmp_path.rglob("*") if "evil" in p.name] == []


def test_too_many_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive of more files than any data set has is refused before it is unpacked."""
    monkeypatch.setattr(archives, "MAX_MEMBERS", 3)
    path = tmp_path / "a.zip"
    path.write_bytes(archive(*((f"{i}.jsonl", "{}") for i in range(4))))
    refused(path, "more than 3")


def test_too_large_in_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sizes of all members together are limited too."""
    monkeypatch.setattr(archives, "MAX_BYTES", 100)
    path = tmp_path / "a.zip"
    path.write_bytes(archive(GOOD))
    refused(path, "more than 100")


def test_a_member_that_lies_about_its_size(tmp_path: Path) -> None:
    """A stated size smaller than the content is found out, not believed."""
    raw = bytearray(archive(("a.jsonl", BOMB)))
    true, small = len(BOMB).to_bytes(4, "little"), (1000).to_bytes(4, "little")
    path = tmp_path / "a.zip"
    path.write_bytes(bytes(raw).replace(true, small))
    refused(path, "damaged|long|bomb")


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (gzip.compress(b"a" * 10**8), "bomb"),
        (gzip.compress(lines(NQ).encode())[:-12], "damaged gzip"),
        (b"\x1f\x8b and no more", "damaged gzip"),
    ],
)
def test_bad_gzip_files(content: bytes, match: str, tmp_path: Path) -> None:
    """Bombs and damaged gzip files are refused."""
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(content)
    refused(path, match)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """A missing file is named."""
    refused(tmp_path / "nothing.jsonl", r"nothing\.jsonl: No such file")


def test_an_earlier_import_stays(tmp_path: Path) -> None:
    """A broken file does not disturb what was installed before."""
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    good.write_text(lines(*LB), encoding="utf-8")
    bad.write_text(lines(*LB)[:-9], encoding="utf-8")
    before = import_path(good)
    with pytest.raises(DataError):
        import_path(bad)
    assert all_installed() == before
