"""The option ``--method`` of pytest: which methods the contract is for."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--method NAME``, several times for several methods."""
    parser.getgroup("harness").addoption(
        "--method",
        action="append",
        default=[],
        metavar="NAME",
        help="method for harness.methods.contract: a name or package.module:Class "
        "(default: every built-in one)",
    )
