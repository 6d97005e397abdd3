"""Pulling over real HTTP from a server on this machine: digests, resuming, refusals."""

from __future__ import annotations

import hashlib
import io
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from unit.tasks.data.files import LONGBENCH, MUSIQUE, lines, numbered

from harness.errors import ConfigError, DataError
from harness.tasks.data.library import all_installed, installed, sets_dir
from harness.tasks.data.manifest import DataSet, manifest
from harness.tasks.pull import pull, resolve

CONTENT = lines(*numbered(MUSIQUE, "id", 400)).encode()


@dataclass
class Hub:
    """A hub with one file. ``cut`` ends the first answer after so many bytes."""

    content: bytes = CONTENT
    sha256: str | None = None
    cut: int | None = None
    etag: str = '"v1"'
    ranges: list[str | None] = field(default_factory=list)
    address: str = ""


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """Serve a hub, which redirects to its store as the real one does."""
    state = Hub()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not self.path.startswith("/store"):
                self.send_response(302)
                self.send_header("Location", "/store")
                if state.sha256:
                    self.send_header("X-Linked-ETag", f'"{state.sha256}"')
                self.end_headers()
                return
            wanted = self.headers.get("Range")
            state.ranges.append(wanted)
            start = 0
            if wanted and self.headers.get("If-Range") == state.etag:
                start = int(wanted.removeprefix("bytes=").rstrip("-"))
            self.send_response(206 if start else 200)
            self.send_header("ETag", state.etag)
            self.send_header("Content-Length", str(len(state.content) - start))
            self.end_headers()
            stop, state.cut = state.cut, None
            self.wfile.write(state.content[start:stop])

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    state.address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("HF_ENDPOINT", state.address)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


MUSIQUE_SET = replace(manifest()["musique"], sha256=hashlib.sha256(CONTENT).hexdigest())


def test_pull_installs_what_it_verified(hub: Hub) -> None:
    """The file is fetched, compared with the manifest's digest, checked and installed."""
    (one,) = pull(MUSIQUE_SET)
    assert (one.name, one.rows) == ("musique", 400)
    assert one.files[0].sha256 == MUSIQUE_SET.sha256
    assert not list((sets_dir() / ".pull").iterdir())


def test_an_interrupted_pull_goes_on_where_it_stopped(hub: Hub) -> None:
    """The second pull asks for the rest only, and the whole is verified."""
    hub.cut = 5000
    with pytest.raises(DataError, match="ended early"):
        pull(MUSIQUE_SET)
    assert all_installed() == []
    pull(MUSIQUE_SET)
    assert hub.ranges == [None, "bytes=5000-"]
    assert installed("musique") is not None


def test_a_file_that_changed_meanwhile_starts_again(hub: Hub) -> None:
    """A half of the old file is never joined to a half of the new one."""
    hub.cut = 5000
    with pytest.raises(DataError):
        pull(replace(MUSIQUE_SET, sha256=None))
    hub.etag, hub.content = '"v2"', lines(*numbered(MUSIQUE, "id", 7)).encode()
    (one,) = pull(replace(MUSIQUE_SET, sha256=None))
    assert one.rows == 7


@pytest.mark.parametrize("digest", ["sha256", "git_blob"])
def test_a_wrong_digest_is_refused(digest: str, hub: Hub) -> None:
    """A file other than the manifest's is thrown away."""
    wrong = replace(replace(MUSIQUE_SET, sha256=None), **{digest: "0" * 40})
    with pytest.raises(DataError, match=r"digest .* not 0000"):
        pull(wrong)
    assert all_installed() == []
    assert not list((sets_dir() / ".pull").iterdir())


def test_the_hubs_own_digest_is_checked(hub: Hub) -> None:
    """Where the manifest has no digest, the one that the hub states is compared."""
    hub.sha256 = "f" * 64
    with pytest.raises(DataError, match="not ffff"):
        pull(replace(MUSIQUE_SET, sha256=None))
    hub.sha256 = hashlib.sha256(CONTENT).hexdigest()
    assert pull(replace(MUSIQUE_SET, sha256=None))


def test_a_git_blob_id_is_gits_own(hub: Hub) -> None:
    """The id of ``git hash-object``: sha1 over a header and the content."""
    hub.content = lines(*numbered(MUSIQUE, "id", 1)).encode()
    header = f"blob {len(hub.content)}\0".encode()
    blob = hashlib.sha1(header + hub.content, usedforsecurity=False).hexdigest()
    assert pull(replace(MUSIQUE_SET, sha256=None, git_blob=blob))


def test_one_archive_brings_all_its_sets(hub: Hub) -> None:
    """LongBench is one zip: it is fetched once, whatever sets are asked for."""
    rows = lines(*numbered(LONGBENCH, "_id"))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as out:
        out.writestr("data/qasper.jsonl", rows)
        out.writestr("data/hotpotqa_e.jsonl", rows.replace('"qasper"', '"hotpotqa"'))
    hub.content = buffer.getvalue()
    (one,) = resolve(["longbench", "longbench_qasper", "longbench_e"])
    assert isinstance(one, DataSet)
    assert {s.name for s in pull(one)} == {"longbench_qasper", "longbench_hotpotqa_e"}
    assert hub.ranges == [None]


def test_content_of_another_set_is_refused(hub: Hub) -> None:
    """What arrives must be what was asked for."""
    hub.content = lines(*numbered(LONGBENCH, "_id")).encode()
    with pytest.raises(DataError, match="not musique, but longbench_qasper"):
        pull(replace(MUSIQUE_SET, sha256=None))


def test_without_a_connection(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One line that says how to go on offline."""
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with pytest.raises(DataError, match=r"cannot fetch .* import the file from"):
        pull(MUSIQUE_SET)


def test_names_that_cannot_be_pulled() -> None:
    """An unknown name has its nearest; a set without a plain file says where to get it."""
    with pytest.raises(ConfigError, match="did you mean 'musique'"):
        resolve(["musiqe"])
    with pytest.raises(DataError, match="harness data import"):
        resolve(["essays"])
