"""A server of ``harness serve`` in its own process, for tests that talk to it as clients do."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

MODEL = "SmolLM2-135M-Instruct"
START_S = 240


@dataclass(frozen=True)
class Answer:
    """A response: status, JSON body (None for another), and text."""

    status: int
    json: Any
    text: str

    @property
    def receipt(self) -> dict[str, Any]:
        """``timings.specprefill``."""
        found: dict[str, Any] = self.json["timings"]["specprefill"]
        return found


class Server:
    """A running server. :meth:`stop` ends it, and tells its exit code."""

    def __init__(self, *options: str, command: tuple[str, ...] = ("-m", "harness", "serve")):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.log = Path(tempfile.mkstemp(suffix=".log")[1])
        arguments = [sys.executable, *command, "--port", str(self.port), *options]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(arguments, stdout=log, stderr=log)
        limit = time.monotonic() + START_S
        while not self._listens():
            if self.process.poll() is not None or time.monotonic() > limit:
                self.process.kill()
                raise RuntimeError(f"the server did not start: {self.log.read_text()[-2000:]}")
            time.sleep(0.3)

    def _listens(self) -> bool:
        try:
            return self.get("/ready").status == 200
        except OSError:
            return False

    @property
    def url(self) -> str:
        """Where an OpenAI client finds it."""
        return f"http://127.0.0.1:{self.port}/v1"

    def processes(self) -> list[psutil.Process]:
        """The server's process and all below it."""
        own = psutil.Process(self.process.pid)
        return [own, *own.children(recursive=True)]

    def get(self, path: str) -> Answer:
        """GET a path."""
        return self._sent(urllib.request.Request(f"http://127.0.0.1:{self.port}{path}"))

    def post(self, path: str, body: Any, kind: str = "application/json") -> Answer:
        """POST an object as JSON, or bytes as they are."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        where = f"http://127.0.0.1:{self.port}{path}"
        return self._sent(urllib.request.Request(where, data, {"Content-Type": kind}))

    def _sent(self, request: urllib.request.Request) -> Answer:
        try:
            with urllib.request.urlopen(request, timeout=180) as answer:
                status, text = answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read().decode(errors="replace")
        try:
            return Answer(status, json.loads(text), text)
        except ValueError:
            return Answer(status, None, text)

    def begin(self, path: str, body: Any) -> http.client.HTTPConnection:
        """Send a request and leave its answer unread."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        return connection

    def metric(self, name: str, **labels: str) -> float:
        """Sum of a metric's samples that carry ``labels``."""
        total = 0.0
        for line in self.get("/metrics").text.splitlines():
            found = re.match(rf"{re.escape(name)}(\{{.*\}})? (\S+)$", line)
            if found and all(f'{k}="{v}"' in (found[1] or "") for k, v in labels.items()):
                total += float(found[2])
        return total

    def idle(self, seconds: float = 20.0) -> bool:
        """Wait until neither engine has anything to do."""
        limit = time.monotonic() + seconds
        names = (
            "vllm:num_requests_running",
            "vllm:num_requests_waiting",
            "specprefill_speculator_queue",
        )
        while time.monotonic() < limit:
            if not any(self.metric(name) for name in names):
                return True
            time.sleep(0.2)
        return False

    def stop(self, how: int = signal.SIGTERM, seconds: float = 60.0) -> int:
        """End it; its exit code. Whatever is left of it after that is killed."""
        left = self.processes() if self.process.poll() is None else []
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            return self.process.wait(seconds)
        finally:
            _, alive = psutil.wait_procs(left, timeout=10)
            self.left_over = [p for p in alive if p.status() != psutil.STATUS_ZOMBIE]
            for process in alive:
                process.kill()
            os.unlink(self.log)  # noqa: PTH108


def haystack(number: int, sentences: int = 60, code: int | None = None) -> str:
    """A long text with one fact in it, different for each ``number``."""
    lines = [
        f"On day {(number * 31 + i * 17) % 97} the {_WORDS[(number + i) % len(_WORDS)]} "
        f"was {_WORDS[(number * 7 + i * 3) % len(_WORDS)]}."
        for i in range(sentences)
    ]
    lines.insert(sentences // 3, f"The special magic number is {code or 10_000 + number * 37}.")
    return " ".join(lines)


_WORDS = (
    *("river", "bridge", "garden", "mayor", "storm", "roof", "people", "water", "year", "old"),
    *("great", "town", "winter", "house", "letter", "stone", "dog", "road", "singer", "market"),
)
