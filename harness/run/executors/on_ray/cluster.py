"""The Ray cluster that a run uses: found by its address, or started on this machine."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from threading import Event, Thread
from typing import Any

from harness.errors import ConfigError, HarnessError

INSTALL = "pip install 'specprefill-harness[ray]'"
OBJECT_STORE_BYTES = 256 * 2**20
"""Shared memory of a cluster that is started here: prompts on their way, little else."""

STARTS = 3
"""How often a cluster is started here before the run gives up."""

PULSE_S, SILENT_S, LOOK_S = 5.0, 30.0, 3.0
"""How often the head is asked for a sign of life, how long it may stay silent, and how long to
wait for an answer that is wanted now. Ray itself would end this process after a minute without a
head."""

_SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|API_?KEY|ACCESS_?KEY", re.IGNORECASE)


class ClusterLostError(HarnessError):
    """The head, or the node that the driver stands on, has died: everything on it is gone."""


@dataclass(frozen=True, slots=True)
class Node:
    """A living node and what Ray may place on it.

    Attributes
    ----------
    node_id
        Ray's own.
    name
        Host name with the start of the id: one host may carry several nodes.
    """

    node_id: str
    name: str
    address: str
    cpus: int
    gpus: int


def require_ray() -> None:
    """Say how to install Ray where it is not.

    Raises
    ------
    ConfigError
        It is not installed.
    """
    if find_spec("ray") is None:
        raise ConfigError(f"--executor ray needs Ray, which is not installed: {INSTALL}")


@contextlib.contextmanager
def connected(
    address: str | None, cpus: int, runtime_env: Mapping[str, Any], patience_s: float = 0.0
) -> Iterator[Cluster]:
    """Connect to a cluster, and leave it (or end it, where it was started here) at the end.

    Parameters
    ----------
    address
        The head's; left out, ``RAY_ADDRESS`` or a cluster that runs on this machine, as Ray
        finds it, else a new one on this machine.
    cpus
        CPU slots of a new cluster.
    patience_s
        How long to try again where nothing answers at ``address``.

    Raises
    ------
    ConfigError
        No cluster answers at ``address``, or this machine does not fit it.
    """
    import ray

    end = time.monotonic() + patience_s
    while True:
        try:
            joined = _connect(address, cpus, runtime_env)
            break
        except ConfigError:
            if time.monotonic() > end:
                raise
            time.sleep(PULSE_S)
    cluster = Cluster(joined, cpus)
    try:
        yield cluster
    finally:
        cluster.close()
        ray.shutdown()


class Cluster:
    """A connection; a thread of it listens whether the head still lives.

    Attributes
    ----------
    joined
        Its address; None where it was started for this run, and so consists of this machine.
    said
        A line that says which cluster it is.
    """

    def __init__(self, joined: str | None, cpus: int) -> None:
        import ray

        self.joined = joined
        self.said = (
            f"started Ray on this machine with {cpus} CPU slots"
            if joined is None
            else f"joined the Ray cluster at {joined}"
        )
        self._own = ray.get_runtime_context().get_node_id()
        self._seen: Sequence[Mapping[str, Any]] = ray.nodes()
        self._heard = time.monotonic()
        self._wake, self._ended = Event(), False
        # A daemon: a question to a dead head may never be answered.
        Thread(target=self._listen, name="ray-pulse", daemon=True).start()

    def nodes(self) -> list[Node]:
        """The living nodes as of the last sign of life, the driver's own first."""
        found = [_node(raw) for raw in self._seen if raw["Alive"]]
        return sorted(found, key=lambda node: node.node_id != self._own)

    def look(self) -> None:
        """Ask for the nodes now, rather than at the next pulse; wait a moment for the answer.

        In the listening thread: an answer of a dead head never comes.
        """
        heard = self._heard
        self._wake.set()
        end = time.monotonic() + LOOK_S
        while self._heard == heard and time.monotonic() < end:
            time.sleep(0.05)

    def check(self) -> None:
        """Notice that the cluster is gone.

        Raises
        ------
        ClusterLostError
            The head is silent, or the driver's own node is dead.
        """
        silent = time.monotonic() - self._heard
        if silent > SILENT_S:
            raise ClusterLostError(f"the Ray head has not answered for {silent:.0f} s")
        if not any(raw["Alive"] for raw in self._seen if raw["NodeID"] == self._own):
            raise ClusterLostError("the Ray node of this machine has died")

    def close(self) -> None:
        """End the listening."""
        self._ended = True
        self._wake.set()

    def _listen(self) -> None:
        import ray

        while True:
            self._wake.wait(PULSE_S)
            self._wake.clear()
            if self._ended:
                return
            with contextlib.suppress(Exception):  # an answer that does not come is what counts
                self._seen = ray.nodes()
                self._heard = time.monotonic()


def node_name(host: str, node_id: str) -> str:
    """Host name with the start of Ray's id: one host may carry several nodes."""
    return f"{host}/{node_id[:6]}" if node_id else host


def _node(raw: Mapping[str, Any]) -> Node:
    resources = raw.get("Resources", {})
    return Node(
        node_id=raw["NodeID"],
        name=node_name(raw["NodeManagerHostname"], raw["NodeID"]),
        address=raw["NodeManagerAddress"],
        cpus=int(resources.get("CPU", 0)),
        gpus=int(resources.get("GPU", 0)),
    )


def _connect(address: str | None, cpus: int, runtime_env: Mapping[str, Any]) -> str | None:
    """Connect; return the address of the cluster, None of one that was started here."""
    if address is not None and address.startswith("ray://"):
        raise ConfigError(
            f"--address {address}: give the head's own address (host:6379), not a Ray client's, "
            "and run the command on a node of the cluster"
        )
    if address != "local":
        try:
            _init(address or "auto", runtime_env)
        except ConnectionError as error:
            if address is not None or os.environ.get("RAY_ADDRESS"):
                raise ConfigError(_unreachable(address, error)) from error
        except (RuntimeError, ValueError) as error:
            raise ConfigError(_unreachable(address, error)) from error
        else:
            return _address()
    _start_here(cpus, runtime_env)
    return None


def _start_here(cpus: int, runtime_env: Mapping[str, Any]) -> None:
    """Start a cluster of one node; whatever a start leaves behind is ended before the next."""
    import ray

    for attempt in range(1, STARTS + 1):
        try:
            with _without_secrets():
                _init(
                    "local",
                    runtime_env,
                    num_cpus=cpus,
                    include_dashboard=False,
                    object_store_memory=OBJECT_STORE_BYTES,
                )
        except Exception as error:  # Ray raises many kinds where one of its processes dies
            ray.shutdown()
            if attempt == STARTS:
                raise HarnessError(
                    f"Ray does not start on this machine: {_first_line(error)}"
                ) from error
        else:
            return


def _init(address: str, runtime_env: Mapping[str, Any], **options: Any) -> None:
    import logging

    import ray

    logging.getLogger("ray").setLevel(logging.ERROR)
    ray.init(
        address=address,
        runtime_env=dict(runtime_env),
        log_to_driver=False,
        logging_level=logging.ERROR,
        **options,
    )


def _address() -> str:
    import ray

    return str(ray.get_runtime_context().gcs_address)


def _unreachable(address: str | None, error: Exception) -> str:
    where = address or os.environ.get("RAY_ADDRESS") or "this machine"
    return (
        f"cannot join the Ray cluster at {where}: {_first_line(error)}; start one (ray start "
        "--head), make this machine a node of it (ray start --address=…), or leave --address out "
        "to run on this machine alone"
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


@contextlib.contextmanager
def _without_secrets() -> Iterator[None]:
    """Hide what looks like a secret: a new cluster's processes keep the environment they get.

    Workers need none: nothing is fetched during a measurement.
    """
    kept = {name: os.environ.pop(name) for name in list(os.environ) if _is_secret(name)}
    try:
        yield
    finally:
        os.environ.update(kept)


def _is_secret(name: str) -> bool:
    # Ray's own token opens the cluster that is being started.
    return bool(_SECRET.search(name)) and not name.startswith("RAY_")
