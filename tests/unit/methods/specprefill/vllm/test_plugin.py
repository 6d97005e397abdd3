"""vLLM's plugin entry point: nothing unless it is asked for."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points


def test_entry_point_resolves():
    """VLLM finds the function by its entry point."""
    (found,) = entry_points(group="vllm.general_plugins", name="specprefill")
    assert found.load().__name__ == "register"


def test_register_is_free_when_unused():
    """Without its variables it imports neither torch nor vLLM nor the rest of the package."""
    script = (
        "import sys; from harness.methods.specprefill.vllm.plugin import register; register();"
        "heavy = {'torch', 'vllm', 'transformers', 'pydantic', 'numpy'} & set(sys.modules);"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    environment = {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", script], check=False, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
