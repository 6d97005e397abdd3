"""Reading YAML: every file of every room goes through here, so that no key is lost unseen.

YAML forbids a key written twice in one mapping; PyYAML keeps the last one and says nothing. A
benchmark that runs on half of its configuration measures something else, so such a file is
refused with the key and both places.
"""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from harness.errors import ConfigError

MERGE = "tag:yaml.org,2002:merge"
"""Tag of ``<<``, which takes over another mapping's keys; keys beside it may replace those."""


class UniqueKeys(yaml.SafeLoader):
    """A safe loader that refuses a key written twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Build a mapping once its keys are known to be different."""
        seen: dict[Hashable, int] = {}
        for key_node, _ in node.value:
            key = None if key_node.tag == MERGE else self.construct_object(key_node, deep=True)
            line = key_node.start_mark.line + 1
            if not isinstance(key, Hashable) or key_node.tag == MERGE:
                continue
            if key in seen:
                raise yaml.YAMLError(f"the key {key!r} stands twice (lines {seen[key]} and {line})")
            seen[key] = line
        return super().construct_mapping(node, deep=deep)


def read_yaml(path: Path, loader: type[UniqueKeys] = UniqueKeys) -> Any:
    """Return what a YAML file holds.

    Raises
    ------
    ConfigError
        One line: the file cannot be read, is no YAML, or has a key twice.
    """
    try:
        return parse_yaml(path.read_text(encoding="utf-8"), str(path), loader)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror or error})") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text ({error.reason})") from error


def parse_yaml(text: str, source: str, loader: type[UniqueKeys] = UniqueKeys) -> Any:
    """Return what a YAML text holds; ``source`` names it in messages.

    Raises
    ------
    ConfigError
        One line: it is no YAML, or has a key twice.
    """
    try:
        return yaml.load(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        at = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise ConfigError(f"{source}: not valid YAML: {at}{error.problem}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{source}: not valid YAML: {error}") from error
