"""The harness's own share of a run's wall time, for docs/performance.md.

Runs ``harness run`` in this process. Everything that waits for the target or the speculator goes
through ``Host`` (start, requests, steps, calls of the workers, close); the rest is the harness:
imports, the plan, data, tokenization, selection, scoring, the store, the summary. What the
harness does while the engines work is counted as its own as well, so the share is an upper bound.

    python benchmarks/overhead.py --task ruler_niah_single_1 --limit 50 --latency-samples 6
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable
from functools import wraps
from time import perf_counter
from typing import Any

BEGAN = perf_counter()
WAITS = ("start", "add", "step", "abort", "rpc", "close")


def timed(spent: dict[str, float], name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that its seconds are added to ``spent[name]``."""

    @wraps(call)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        start = perf_counter()
        try:
            return call(*args, **kwargs)
        finally:
            spent[name] += perf_counter() - start

    return wrapped


def main() -> None:
    """Run, then print where the seconds went."""
    from harness.cli.main import main as harness
    from harness.engines.vllm.host import Host

    spent: dict[str, float] = defaultdict(float)
    for name in WAITS:
        call = getattr(Host, name)
        plain = getattr(call, "__func__", call)
        wrapped = timed(spent, name, plain)
        setattr(Host, name, classmethod(wrapped) if plain is not call else wrapped)
    sys.argv = ["harness", "run", *sys.argv[1:]]
    try:
        harness()
    except SystemExit as end:
        if end.code:
            raise
    whole = perf_counter() - BEGAN
    engines = sum(spent.values())
    most = sorted(spent.items(), key=lambda item: -item[1])
    parts = ", ".join(f"{name} {seconds:.1f}" for name, seconds in most)
    print(
        f"wall {whole:.1f} s; target and speculator {engines:.1f} s ({parts}); "
        f"harness {whole - engines:.1f} s = {(whole - engines) / whole:.1%}"
    )


if __name__ == "__main__":
    main()
