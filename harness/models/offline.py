"""Nothing is downloaded during a run (DESIGN.md, rule 8): the hub's libraries told so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def offline() -> Iterator[None]:
    """Let ``datasets`` and ``huggingface_hub`` use what is cached, and fail at once otherwise.

    Their environment variables are read when they are imported, which may long be over.
    """
    import datasets.config
    import huggingface_hub.constants

    modules: tuple[Any, ...] = (datasets.config, huggingface_hub.constants)
    before = [module.HF_HUB_OFFLINE for module in modules]
    try:
        for module in modules:
            module.HF_HUB_OFFLINE = True
        yield
    finally:
        for module, value in zip(modules, before, strict=True):
            module.HF_HUB_OFFLINE = value
