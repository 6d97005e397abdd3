"""Code that lives outside this package, and how text names it.

A *reference* is ``package.module:Name``, an object that can be imported. An *offer* is a
reference that an installed package makes under a name of its own, as an entry point. Foreign code
may fail in any way: every fault becomes one line that says which package, entry point or module.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import entry_points
from pkgutil import resolve_name
from typing import Any, TypeVar

from harness.errors import ConfigError, HarnessError

_DOTTED = r"[^\W\d]\w*(\.[^\W\d]\w*)*"
_MODULE, _REFERENCE = re.compile(_DOTTED), re.compile(f"{_DOTTED}:{_DOTTED}")

Result = TypeVar("Result")

BUILT_IN = "built in"
"""Where our own methods and tasks come from, as listings say it."""


@dataclass(frozen=True, slots=True)
class Offer:
    """An entry point: ``name`` stands for ``reference`` while ``package`` is installed."""

    group: str
    name: str
    reference: str
    package: str
    version: str

    @property
    def origin(self) -> str:
        """The package with its version, as tables show it."""
        return f"{self.package} {self.version}"

    def __str__(self) -> str:
        return f"entry point {self.name!r} ({self.group}) of {self.origin}"


@dataclass(frozen=True, slots=True)
class Broken:
    """An offer that cannot be used, and why."""

    name: str
    origin: str
    reason: str

    def to_json(self) -> dict[str, str]:
        """JSON-ready."""
        return {"name": self.name, "from": self.origin, "reason": self.reason}


def offers(group: str) -> list[Offer]:
    """What installed packages offer in an entry point group, by name; nothing is imported."""
    found = []
    for point in entry_points(group=group):
        # An entry point that stands in no distribution cannot be found by importlib.metadata.
        package = point.dist.name if point.dist is not None else "unknown package"
        version = point.dist.version if point.dist is not None else "?"
        found.append(Offer(group, point.name, point.value, package, version))
    return sorted(set(found), key=lambda offer: (offer.name, offer.package))


def the_offer(name: str, found: Iterable[Offer]) -> Offer | None:
    """Return the offer of that name; None where there is none.

    Raises
    ------
    ConfigError
        Two packages offer the name.
    """
    same = [offer for offer in found if offer.name == name]
    if len(same) > 1:
        who = " and ".join(offer.origin for offer in same)
        raise ConfigError(f"{same[0].group} {name!r} is offered by {who}: uninstall one of them")
    return same[0] if same else None


def is_reference(text: str) -> bool:
    """Whether ``text`` is written as ``package.module:Name``."""
    return _REFERENCE.fullmatch(text) is not None


def load(reference: str, what: str) -> Any:
    """Import what a reference, or a module's name alone, stands for.

    Parameters
    ----------
    what
        What is looked for and where its name stands, for the error message.

    Raises
    ------
    ConfigError
        It is no reference, or its module cannot be imported, or holds no such name.
    """
    if not (is_reference(reference) or _MODULE.fullmatch(reference)):
        raise ConfigError(f"{what}: {reference!r} is not written as package.module:Name")
    module = reference.partition(":")[0]
    try:
        return resolve_name(reference if ":" in reference else f"{reference}:")
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise _fault(what, f"importing {module}", error) from error
        raise ConfigError(
            f"{what}: no module {error.name!r}; install its package, or put the folder that holds "
            "it on PYTHONPATH"
        ) from error
    except AttributeError as error:
        raise _fault(what, reference, error) from error
    except (Exception, SystemExit) as error:
        raise _fault(what, f"importing {module}", error) from error


def guarded(what: str, doing: str, call: Callable[[], Result]) -> Result:
    """Call foreign code; whatever it raises becomes one line.

    Raises
    ------
    ConfigError
        It raised. Our own errors, which say all themselves, only get ``what`` before them.
    """
    try:
        return call()
    except HarnessError as error:
        raise ConfigError(f"{what}: {error}") from error
    except (Exception, SystemExit) as error:
        raise _fault(what, doing, error) from error


def _fault(what: str, doing: str, error: BaseException) -> ConfigError:
    lines = str(error).strip().splitlines() or [""]
    return ConfigError(f"{what}: {doing} fails: {type(error).__name__}: {lines[0]}".rstrip(": "))
