"""From a method's name to its class: built in, of an installed package, or a reference.

A name is a key of :data:`harness.methods.METHODS`, an entry point of the group
:data:`GROUP`, or ``package.module:Class``. What comes from outside is checked before anything
runs: it is a :class:`~harness.methods.base.Method`, its options have defaults, and its name is no
other's.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from importlib.util import find_spec
from pkgutil import resolve_name
from typing import Any, cast

from harness.engines.base import EngineSpec
from harness.errors import ConfigError, nearest
from harness.methods import METHODS
from harness.methods.base import Method
from harness.methods.options import defaults_of
from harness.paths import package_or_checkout
from harness.schema.outside import (
    BUILT_IN,
    Broken,
    Offer,
    guarded,
    is_reference,
    load,
    offers,
    the_offer,
)
from harness.schema.receipts import BudgetKind
from harness.schema.source_digest import digest_of_module, source_file

GROUP = "harness.methods"
"""Entry point group: name → ``package.module:Class``."""

PACKAGE = "package:"
"""Prefix of a need that an optional Python package fills."""

_NAME = re.compile(r"[\w.+-]+")


def method_names() -> list[str]:
    """Every name that stands for a method here: built in, then of installed packages."""
    return [*METHODS, *dict.fromkeys(offer.name for offer in offers(GROUP))]


def method_class(name: str) -> type[Method]:
    """Import and return the class behind a name.

    Raises
    ------
    ConfigError
        No method of that name, or one from outside that cannot be used, with the reason.
    """
    if name in METHODS:
        return cast("type[Method]", resolve_name(METHODS[name]))
    if is_reference(name):
        return _checked(load(name, f"method {name}"), f"method {name}")
    offer = the_offer(name, offers(GROUP))
    if offer is None:
        raise ConfigError(f"no method {name!r}{nearest(name, method_names())}")
    return _offered_class(offer)


def outside_methods() -> tuple[list[Offer], list[Broken]]:
    """Methods that installed packages offer, and the offers that cannot be used."""
    good, broken = [], []
    found = offers(GROUP)
    for offer in found:
        try:
            the_offer(offer.name, found)
            _offered_class(offer)
            good.append(offer)
        except ConfigError as error:
            broken.append(Broken(offer.name, offer.origin, str(error)))
    return good, broken


def origin_of(cls: type[Method]) -> str:
    """Where a method comes from: ``built in``, a package with its version, or a file."""
    if _is_ours(cls.__module__):
        return BUILT_IN
    top = cls.__module__.partition(".")[0]
    for package in packages_distributions().get(top, ()):
        try:
            return f"{package} {version(package)}"
        except PackageNotFoundError:
            continue
    file = source_file(cls.__module__)
    return f"file {file}" if file else f"module {cls.__module__}"


def missing(method: Method) -> str | None:
    """Say what a method lacks on this machine; None where it can run."""
    for need in sorted(method.needs):
        package = need.removeprefix(PACKAGE)
        if package != need and find_spec(package) is None:
            if origin_of(type(method)) == BUILT_IN:
                package = f"'specprefill-harness[{package}]'"
            return f"pip install {package}"
    return method.missing()


def outside_code(method: Method, spec: EngineSpec) -> Mapping[str, str]:
    """Digest of each module from outside that a method's results depend on.

    Those of its class and of the methods it builds on, and of a prefill strategy or attention
    path that its engine is told to import. Empty for a method that is built in: its ``version``
    stands for its code.
    """
    modules = {cls.__module__ for cls in type(method).__mro__ if issubclass(cls, Method)}
    named = {spec.prefill, spec.attention}
    modules |= {name.partition(":")[0] for name in named if is_reference(name)}
    return {name: digest_of_module(name) for name in sorted(modules) if not _is_ours(name)}


def _offered_class(offer: Offer) -> type[Method]:
    cls = _checked(load(offer.reference, str(offer)), str(offer))
    if offer.name in METHODS:
        raise ConfigError(f"{offer}: the name {offer.name!r} is a built-in method's")
    if cls.name != offer.name:
        raise ConfigError(f"{offer}: the class calls itself {cls.name!r}; give both one name")
    return cls


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == __name__.partition(".")[0]


def _checked(found: object, what: str) -> type[Method]:
    """Return ``found`` where it is a method that can be used; refuse it in one line otherwise."""
    if not (isinstance(found, type) and issubclass(found, Method)):
        raise ConfigError(f"{what} is no method: it is no subclass of harness.methods.base.Method")
    promised: Any = found  # foreign code may break what the base declares
    if inspect.isabstract(promised):
        raise ConfigError(f"{what} is no method yet: it does not define prepare")
    if not hasattr(promised, "__dataclass_fields__"):
        raise ConfigError(f"{what} is no dataclass, whose fields would be the method's options")
    if not isinstance(promised.name, str) or _NAME.fullmatch(promised.name) is None:
        raise ConfigError(f"{what}: its name must be one word of letters, digits, . _ + -")
    arm = package_or_checkout("baselines") / f"{found.name}.yaml"
    if (found.name in METHODS or arm.is_file()) and not _is_ours(found.__module__):
        # Full prefill is known by its name: whoever took it would be what deltas refer to.
        raise ConfigError(f"{what}: the name {found.name!r} is a built-in method's or arm's")
    if not isinstance(promised.budget_kind, BudgetKind):
        raise ConfigError(f"{what}: its budget_kind is no harness.schema.receipts.BudgetKind")
    if not isinstance(promised.needs, (set, frozenset)):
        raise ConfigError(f"{what}: its needs are no set of words")
    guarded(what, "building it with its defaults", lambda: defaults_of(found))
    return found
