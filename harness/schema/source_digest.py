"""Digests of source code: what must be equal for two results to come from the same code.

Files are looked at, never imported. Two copies of the same code in other folders are equal.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

from harness.errors import ConfigError

_LIBRARY = Path(__file__).resolve().parents[1]
_BY_VERSION = frozenset({_LIBRARY.name, "lm_eval"})
"""Packages that are told apart by their version or commit instead."""


def digest_of_files(files: Iterable[Path], *more: str) -> str:
    """sha256 over files, their places in their package and their contents, and ``more`` texts.

    Neither order nor line ends count: a checkout on another system is the same code.
    """
    parts = sorted({f"{_place(file)}\0{_text(file)}" for file in files})
    whole = hashlib.sha256()
    for part in (*parts, *more):
        whole.update(hashlib.sha256(part.encode("utf-8", "surrogateescape")).digest())
    return whole.hexdigest()


def digest_of_module(module: str) -> str:
    """sha256 of the code that an imported module stands in.

    A module of a package stands for all Python files of that package (its outermost regular
    one); a module on its own for its file and what that imports from the same folder.

    Raises
    ------
    ConfigError
        The module has no source that can be read.
    """
    names = module.split(".")
    for depth in range(1, len(names) + 1):
        file = source_file(".".join(names[:depth]))
        if file is not None and file.name == "__init__.py":
            return digest_of_files(file.parent.rglob("*.py"))
    file = source_file(module)
    if file is None:
        raise ConfigError(
            f"the source of module {module!r} cannot be read, so its results could not be told "
            "from those of other code; put it into a file"
        )
    return digest_of_files(with_imports([file]))


def with_imports(files: Iterable[Path], also: Iterable[Path] = ()) -> set[Path]:
    """Return Python files and what they import, directly or not, of their own code.

    A file's own code is its outermost package, or its folder where it is in none. Imports of
    other packages do not count, but for files under the folders ``also``.
    """
    shared = [folder.resolve() for folder in also]
    todo = [file.resolve() for file in files]
    found: set[Path] = set()
    while todo:
        file = todo.pop()
        if file in found:
            continue
        found.add(file)
        own = _own_root(file)
        for name, level in _imports(file):
            for target in _targets(file, own, name, level):
                if any(target.is_relative_to(folder) for folder in (own, *shared)):
                    todo.append(target)
    return found


def _own_root(file: Path) -> Path:
    """The outermost package that holds a file; its folder where there is none but these two."""
    holder = next((p for p in file.parents if (p / "__init__.py").is_file()), None)
    while holder is not None and (holder.parent / "__init__.py").is_file():
        holder = holder.parent
    return file.parent if holder is None or holder.name in _BY_VERSION else holder


def _place(file: Path) -> str:
    """Where a file stands in its own code, the same on every machine."""
    file = file.resolve()
    return file.relative_to(_own_root(file)).as_posix()


def _imports(file: Path) -> Iterator[tuple[str, int]]:
    """Dotted names that a file imports anywhere, with the dots before them (0 is absolute)."""
    try:
        tree = ast.parse(_text(file))
    except (SyntaxError, ValueError):  # whoever imports it will say so
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, 0) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            yield base, node.level
            yield from ((f"{base}.{alias.name}".lstrip("."), node.level) for alias in node.names)


def _targets(file: Path, own: Path, name: str, level: int) -> Iterator[Path]:
    """Files that a dotted name may stand for, seen from ``file``; packages on the way too."""
    parts = name.split(".") if name else []
    everywhere = [file.parent, own.parent, _LIBRARY.parent]
    bases = [file.parents[level - 1]] if level else everywhere
    for base in bases:
        steps = [base.joinpath(*parts[:depth]) for depth in range(1, len(parts) + 1)]
        candidates = [place / "__init__.py" for place in (*([base] if level else []), *steps)]
        candidates += [place.parent / f"{place.name}.py" for place in steps]
        yield from (one.resolve() for one in candidates if one.is_file())


def source_file(module: str) -> Path | None:
    """Return a module's source file, imported or not; None where it has none."""
    known = sys.modules.get(module)
    try:
        name = inspect.getsourcefile(known) if known is not None else None
        if known is None:
            spec = find_spec(module)
            name = None if spec is None else spec.origin
    except (ImportError, TypeError, ValueError):
        return None
    return Path(name) if name is not None and Path(name).is_file() else None


def _text(file: Path) -> str:
    try:
        return "\n".join(file.read_bytes().decode("utf-8", "surrogateescape").splitlines())
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror or error}") from error
