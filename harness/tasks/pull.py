"""``harness data pull``: fetch, verify and install a publisher's file; resumes where it stopped."""

from __future__ import annotations

import hashlib
import json
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import IO, Any

from harness.errors import ConfigError, DataError, nearest
from harness.tasks import foreign
from harness.tasks.data.archives import gunzip, unzip
from harness.tasks.data.formats import Parsed, read
from harness.tasks.data.importing import install_parsed
from harness.tasks.data.library import Installed, sets_dir
from harness.tasks.data.manifest import DataSet, address, manifest
from harness.tasks.data.strict import Source
from harness.tasks.info import TaskInfo, from_file

BLOCK = 1024**2
TIMEOUT_S = 30

Progress = Callable[[str, int, int | None], None]
"""Called with the set's name, bytes received, and bytes in all where known."""


def resolve(names: list[str]) -> list[DataSet | TaskInfo]:
    """Return the sets to pull; an archive's sets are pulled together, so each archive once.

    ``longbench`` and ``longbench_e`` stand for the archive that holds them. A task of lm-eval's
    stands for its own data, which go to the hub's cache.
    """
    known = manifest()
    found: dict[str, DataSet | TaskInfo] = {}
    for name in names:
        wanted = "longbench_hotpotqa" if name in {"longbench", "longbench_e"} else name
        if wanted not in known:
            paths = foreign.find(name)
            if not paths:
                raise ConfigError(f"no data set '{name}'{nearest(name, [*known, 'longbench'])}")
            found.update({str(path): from_file(path) for path in paths})
            continue
        one = known[wanted]
        if one.url is None:
            raise DataError(
                f"{name} cannot be pulled; get it from {one.homepage} and run "
                "harness data import FILE"
            )
        found.setdefault(one.archive or one.name, one)
    return list(found.values())


def pull_task(task: TaskInfo) -> str:
    """Let lm-eval fetch a task's data into the hub's cache; return the line that says so."""
    from harness.tasks.examples import load_task

    docs = len(load_task(task, {}, download=True).eval_docs)
    return f"{task.name}: {docs} documents in the hub's cache"


def pull(one: DataSet, progress: Progress | None = None) -> list[Installed]:
    """Fetch, verify, check and install one file; nothing is installed unless all of it is good.

    Raises
    ------
    DataError
        No connection, a wrong digest, or content that does not check.
    """
    url = address(one)
    assert url is not None  # resolve() has refused it
    part = sets_dir() / ".pull" / f"{one.archive or one.name}.part"
    stated = _fetch(one, url, part, progress)
    data = part.read_bytes()
    _verify(one, data, stated, part)
    installed = [
        install_parsed(source, parsed, origin=f"{url} ({one.revision})")
        for source, parsed in _open(one, url, data)
    ]
    _discard(part)
    return installed


def _open(one: DataSet, url: str, data: bytes) -> list[tuple[Source, Parsed]]:
    """Check everything in the fetched file."""
    source = Source(url.rsplit("/", 1)[-1], data)
    if one.archive is not None:
        sources = list(unzip(source))
    else:
        sources = [gunzip(source) if data.startswith(b"\x1f\x8b") else source]
    parsed = [(s, read(s)) for s in sources]
    wrong = next((p.set_name for _, p in parsed if p.set_name not in manifest()), None)
    if wrong is not None or (one.archive is None and parsed[0][1].set_name != one.name):
        raise DataError(f"{source.name}: not {one.name}, but {wrong or parsed[0][1].set_name}")
    return parsed


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects and keeps the digest that the hub states on the way to its store."""

    def __init__(self) -> None:
        self.sha256: str | None = None

    def redirect_request(  # the base class fixes the signature  # noqa: PLR0917
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        self.sha256 = _sha256_in(headers) or self.sha256
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _sha256_in(headers: Any) -> str | None:
    """The hub's ``X-Linked-ETag`` is the sha256 of a large file."""
    tag = str(headers.get("X-Linked-ETag", "")).strip('W/"')
    return tag if len(tag) == 64 and not set(tag) - set("0123456789abcdef") else None


def _fetch(one: DataSet, url: str, part: Path, progress: Progress | None) -> str | None:
    """Fetch to ``part``, going on where an earlier pull stopped; return the hub's digest."""
    part.parent.mkdir(parents=True, exist_ok=True)
    note = part.with_suffix(".json")
    known = _read_note(note, url) if part.exists() else None
    have = part.stat().st_size if known else 0
    request = urllib.request.Request(url, headers={"User-Agent": "specprefill-harness"})
    if known and have:
        request.add_header("Range", f"bytes={have}-")
        request.add_header("If-Range", known["etag"])
    redirects = _Redirects()
    try:
        with urllib.request.build_opener(redirects).open(request, timeout=TIMEOUT_S) as answer:
            resumed = answer.status == 206
            etag = answer.headers.get("ETag", "")
            stated = redirects.sha256 or _sha256_in(answer.headers)
            note.write_text(json.dumps({"url": url, "etag": etag}), encoding="utf-8")
            have = have if resumed else 0
            length = answer.headers.get("Content-Length")
            total = have + int(length) if length else None
            with part.open("ab" if resumed else "wb") as out:
                while block := answer.read(BLOCK):
                    out.write(block)
                    have += len(block)
                    if progress is not None:
                        progress(one.name, have, total)
    except urllib.error.HTTPError as error:
        raise DataError(f"{url} answers {error.code} {error.reason}; {_instead(one)}") from error
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise DataError(f"cannot fetch {url} ({reason}); {_instead(one)}") from error
    if total is not None and have != total:
        raise DataError(f"{url}: the connection ended early; pull again to go on from there")
    return stated


def _read_note(note: Path, url: str) -> dict[str, str] | None:
    """What an interrupted pull wrote down; None unless it was the same file with a strong tag."""
    try:
        raw = json.loads(note.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    usable = raw.get("url") == url and raw.get("etag") and not raw["etag"].startswith("W/")
    return raw if usable else None


def _instead(one: DataSet) -> str:
    return f"on a machine without a connection, import the file from {one.homepage}"


def _verify(one: DataSet, data: bytes, stated: str | None, part: Path) -> None:
    """Compare with the manifest's digests, else with the hub's own."""
    blob = hashlib.sha1(b"blob %d\x00" % len(data) + data, usedforsecurity=False).hexdigest()
    sha256 = hashlib.sha256(data).hexdigest()
    wanted, got = next(
        ((w, g) for w, g in ((one.sha256, sha256), (one.git_blob, blob), (stated, sha256)) if w),
        (None, None),
    )
    if wanted != got:
        _discard(part)
        raise DataError(
            f"{one.name}: the file received has the digest {got}, not {wanted}; it was not "
            "installed (pull again, or import a file that you trust)"
        )


def _discard(part: Path) -> None:
    part.unlink(missing_ok=True)
    part.with_suffix(".json").unlink(missing_ok=True)
