"""The Ray executor: the writer's side. It has the store; a process of its own talks to Ray."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any

from harness.engines.vllm.following import follow_parent
from harness.errors import ConfigError, ExitCode, HarnessError
from harness.run.executors.on_ray.alone import earlier_machine
from harness.run.executors.on_ray.backlog import TRIES
from harness.run.executors.on_ray.cluster import ClusterLostError, require_ray
from harness.run.executors.on_ray.relay import DRAIN, Relay, guarded
from harness.run.executors.on_ray.session import Session, Wishes
from harness.run.first_look import Clock
from harness.run.recording import Recorder

END_S = 30.0
"""How long the driver process has to leave the cluster before it is ended."""


@dataclass(frozen=True)
class RayExecutor:
    """Runs a plan on the nodes of a Ray cluster.

    Attributes
    ----------
    address
        The head's; left out, what Ray finds itself, else a cluster on this machine.
    workers
        How many to use; left out, as many as there is room for.

    Raises
    ------
    ConfigError
        Ray is not installed.
    """

    address: str | None = None
    workers: int | None = None

    def __post_init__(self) -> None:
        require_ray()

    def run(self, recorder: Recorder) -> None:
        """Run whatever is left; a cluster that dies is sought again, or started anew.

        Raises
        ------
        ClusterLostError
            It died :data:`TRIES` times with nothing finished in between.
        HarnessError
            What the driver process says.
        KeyboardInterrupt
            After Ctrl-C, once what was running is finished and stored.
        """
        _refuse_connected()
        writer = _Writer(recorder, Clock(recorder.plan.first_look))
        address, losses = self.address, 0
        with _interrupts(recorder) as interrupted:
            while True:
                before = recorder.outcome.generated + recorder.outcome.timed
                wishes = Wishes(address, self.workers, is_return=losses > 0)
                lost = writer.serve(wishes, interrupted)
                if lost is None:
                    break
                advanced = recorder.outcome.generated + recorder.outcome.timed > before
                losses = 1 if advanced else losses + 1
                if losses >= TRIES:
                    raise ClusterLostError(f"{lost} ({losses} times); what was finished is saved")
                recorder.progress.say(f"{lost}; what was finished is saved, going on")
                address = writer.joined or self.address
        if interrupted.is_set():
            raise KeyboardInterrupt
        if writer.clock.cut_short:
            recorder.progress.say(
                "the first look's minutes are over: the same command measures the latency blocks "
                "that are left"
            )


@dataclass
class _Writer:
    """Writes what a driver process sends.

    Attributes
    ----------
    joined
        Address of the cluster that was joined; None where one was started here.
    """

    recorder: Recorder
    clock: Clock
    joined: str | None = None
    _lost: str | None = None
    _error: HarnessError | None = field(default=None)

    def serve(self, wishes: Wishes, interrupted: threading.Event) -> str | None:
        """Start a driver process and write until it ends.

        Returns
        -------
        How the cluster was lost; None where everything is done, or drained.
        """
        self._lost = self._error = None
        machine = earlier_machine(self.recorder.store)
        # Forked: the plan holds prompts by the gigabyte and code that cannot be sent.
        context = multiprocessing.get_context("fork")
        here, there = context.Pipe()
        # A relay counts for itself: what it sends is only done once it is written here.
        session = Session(Relay(self.recorder, there), wishes, self.clock, machine)
        child = context.Process(target=_drive, args=(session, here, there), daemon=True)
        sys.stdout.flush()
        sys.stderr.flush()
        child.start()
        there.close()
        ended = False
        try:
            ended = self._listen(here, interrupted)
            child.join(END_S if ended else None)
        finally:
            here.close()
            if child.is_alive():
                child.terminate()
                child.join(END_S)
            if child.is_alive():
                child.kill()
        if self._error is not None:
            raise self._error
        if not ended:
            return f"Ray has ended its driver process (exit code {child.exitcode})"
        return self._lost

    def _listen(self, pipe: Connection, interrupted: threading.Event) -> bool:
        """Take what comes; whether the driver process said how it ended."""
        told = False
        while True:
            if interrupted.is_set() and not told:
                told = True
                with contextlib.suppress(BrokenPipeError):
                    pipe.send(DRAIN)
            if not pipe.poll(0.2):
                continue
            try:
                kind, value = pipe.recv()
            except (EOFError, ConnectionResetError):
                return False
            if self._take(kind, value, pipe):
                return True

    def _take(self, kind: str, value: Any, pipe: Connection) -> bool:
        """Deal with one message; whether it was the last."""
        progress = self.recorder.progress
        match kind:
            case "quality":
                self.recorder.quality(value)
            case "latency":
                self.recorder.latency(value)
            case "stop":
                self.recorder.stop(value)
            case "say":
                progress.say(value)
            case "doing":
                progress.doing(value)
            case "crew":
                progress.crew(*value)
            case "unsupported":
                pipe.send(frozenset(self.recorder.store.unsupported_reasons()))
            case "joined":
                self.joined = value
            case "cut_short":
                self.clock.cut_short |= value
            case "lost":
                self._lost = value
            case "error":
                message, code = value
                self._error = HarnessError(message, ExitCode(code))
        return kind in {"done", "lost", "error"}


def _drive(session: Session, others: Connection, pipe: Connection) -> None:
    """Be the driver process."""
    others.close()
    # The terminal sends Ctrl-C to both processes; the writer says what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    follow_parent()
    guarded(pipe, session.run)


def _refuse_connected() -> None:
    """Refuse a process that Ray is connected in: a fork of it would share its sockets.

    Raises
    ------
    ConfigError
        ``ray.init`` was called here.
    """
    import ray

    if ray.is_initialized():
        raise ConfigError(
            "this process is connected to Ray already: call ray.shutdown() first; the executor "
            "joins the same cluster by itself (address=…)"
        )


@contextlib.contextmanager
def _interrupts(recorder: Recorder) -> Iterator[threading.Event]:
    """Turn a first Ctrl-C into an event, so that what is running is finished and stored."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop  # only the main thread may take signals
        return

    def heard(_: int, __: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        recorder.progress.say("finishing what is running; Ctrl-C again stops at once")

    before = signal.signal(signal.SIGINT, heard)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
