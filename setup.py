"""Copies tasks, baselines and report templates into the wheel as package data."""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

RESOURCES = ("tasks", "baselines", "reports/templates")


class BuildWithResources(build_py):
    """A checkout uses the folders directly; an installed wheel finds them in the package."""

    def run(self) -> None:
        """Build, then copy the resource folders, unless the install is editable."""
        super().run()
        if self.editable_mode:
            return
        for name in RESOURCES:
            source = Path(name)
            if source.is_dir():
                target = Path(self.build_lib) / "harness" / "_resources" / name
                shutil.copytree(
                    source,
                    target,
                    dirs_exist_ok=True,
                    ignore=shutil.ignore_patterns("__pycache__"),
                )


setup(cmdclass={"build_py": BuildWithResources})
