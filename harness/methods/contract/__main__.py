"""``python -m harness.methods.contract METHOD …``: the contract tests of a method."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from harness.errors import ConfigError, ExitCode
from harness.methods.registry import method_class


def main(words: list[str]) -> int:
    """Run the tests; words before the first option are methods, the rest is pytest's own.

    Returns
    -------
    int
        pytest's exit code, or 2 with one line on standard error.
    """
    count = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
    try:
        if not count:
            raise ConfigError("name a method: python -m harness.methods.contract package.module:X")
        if find_spec("pytest") is None:
            raise ConfigError("the contract tests need pytest: pip install pytest")
        for name in words[:count]:
            method_class(name)
    except ConfigError as error:
        print(f"harness: {error}", file=sys.stderr)
        return int(ExitCode.USAGE)
    import pytest

    asked = [option for name in words[:count] for option in ("--method", name)]
    plugin = ["-p", "harness.methods.contract.plugin", "-p", "no:cacheprovider"]
    return int(pytest.main([*plugin, str(Path(__file__).parent), *asked, *words[count:]]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
