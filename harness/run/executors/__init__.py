"""Where the cells of a plan run: on this machine, or on the nodes of a Ray cluster."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import Protocol

from harness.errors import ConfigError, nearest
from harness.run.recording import Recorder

EXECUTORS: dict[str, str] = {
    "local": "harness.run.executors.local:LocalExecutor",
    "ray": "harness.run.executors.on_ray.executor:RayExecutor",
}
"""Executor name → ``module:Class``; a class is imported when it is used, never before."""


class Executor(Protocol):
    """Runs what is left of a plan; whatever it gets goes through the recorder, the only writer."""

    def run(self, recorder: Recorder) -> None:
        """Run whatever is left of the recorder's plan.

        Raises
        ------
        HarnessError
            Nothing more can be run here; what was finished is in the store.
        """


def make_executor(
    name: str = "local", *, address: str | None = None, workers: int | None = None
) -> Executor:
    """Make the executor of that name.

    Raises
    ------
    ConfigError
        There is none of that name, it does not take an option, or its library is not installed.
    """
    if name not in EXECUTORS:
        raise ConfigError(f"no executor {name!r}{nearest(name, EXECUTORS)}")
    if workers is not None and workers < 1:
        raise ConfigError(f"--workers {workers}: there must be one at least")
    given = {"address": address, "workers": workers}
    named = [f"--{option}" for option, value in given.items() if value is not None]
    if name == "local":
        if named:
            raise ConfigError(f"{named[0]} belongs to --executor ray; the local one has no option")
        given = {}
    made: Executor = resolve_name(EXECUTORS[name])(**given)
    return made
