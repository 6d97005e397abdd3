"""Archives from strangers: read into memory, member by member, within limits."""

from __future__ import annotations

import gzip
import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import PurePosixPath

from harness.errors import DataError
from harness.tasks.data.strict import Source

BROKEN = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, ValueError, RuntimeError,
)  # fmt: skip
"""What the standard library raises on damaged archives; NotImplementedError is a RuntimeError."""

MAX_MEMBERS = 1000
MAX_BYTES = 4 * 1024**3
"""Most bytes that an archive may unpack to; LongBench's own is 0.6 GiB."""
MAX_RATIO = 200
"""Most times larger a member may be than it is packed; English text packs 3 to 5 times."""
FREE_BYTES = 1024**2
"""Members below this size are not judged by their ratio: repetitive small files are common."""


def unzip(source: Source) -> Iterator[Source]:
    """Yield the JSON files of a zip archive.

    Raises
    ------
    DataError
        A damaged archive, a name that leaves it, a link, a password, or a zip bomb. Names and
        sizes are all checked before anything is unpacked.
    """
    try:
        archive = zipfile.ZipFile(io.BytesIO(source.data))
    except BROKEN as error:
        raise DataError(f"{source.name}: a damaged zip archive ({error})") from error
    with archive:
        members = [m for m in archive.infolist() if not m.is_dir() and not _litter(m.filename)]
        _check(source.name, members)
        for member in members:
            yield Source(f"{source.name}:{member.filename}", _read(source.name, archive, member))


def _litter(name: str) -> bool:
    """Files that operating systems leave in archives."""
    path = PurePosixPath(name)
    return path.name.startswith("._") or path.name == ".DS_Store" or path.parts[:1] == ("__MACOSX",)


def _check(archive: str, members: list[zipfile.ZipInfo]) -> None:
    if not members:
        raise DataError(f"{archive}: the archive holds no files")
    if len(members) > MAX_MEMBERS:
        raise DataError(f"{archive}: {len(members)} files; more than {MAX_MEMBERS} are refused")
    names = [member.filename for member in members]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{archive}: holds {twice} twice")
    for member in members:
        _check_member(f"{archive}:{member.filename}", member)
    total = sum(member.file_size for member in members)
    if total > MAX_BYTES:
        raise DataError(f"{archive}: unpacks to {total} bytes; more than {MAX_BYTES} are refused")


def _check_member(where: str, member: zipfile.ZipInfo) -> None:
    path = PurePosixPath(member.filename.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in member.filename:
        raise DataError(f"{where}: the name leads out of the archive")
    if stat.S_ISLNK(member.external_attr >> 16):
        raise DataError(f"{where}: a link, which is refused")
    if member.flag_bits & 1:
        raise DataError(f"{where}: needs a password")
    if path.suffix not in {".json", ".jsonl"}:
        raise DataError(f"{where}: neither .json nor .jsonl")
    packed = max(1, member.compress_size)
    if member.file_size > FREE_BYTES and member.file_size / packed > MAX_RATIO:
        raise DataError(
            f"{where}: unpacks to {member.file_size // packed} times its size, like a zip bomb"
        )


def _read(name: str, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """Unpack one member, trusting its stated size no further than it goes."""
    where = f"{name}:{member.filename}"
    try:
        with archive.open(member) as stream:
            data = stream.read(member.file_size + 1)
    except BROKEN as error:
        raise DataError(f"{where}: damaged ({error})") from error
    if len(data) != member.file_size:
        raise DataError(f"{where}: not as long as the archive says")
    return data


def gunzip(source: Source) -> Source:
    """Unpack a gzip file."""
    limit = max(FREE_BYTES, MAX_RATIO * len(source.data))
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(source.data)) as stream:
            data = stream.read(limit + 1)
    except BROKEN as error:
        raise DataError(f"{source.name}: a damaged gzip file ({error})") from error
    if len(data) > limit:
        raise DataError(f"{source.name}: unpacks to over {MAX_RATIO} times its size, like a bomb")
    return Source(source.name, data)
