"""No process outlives its engine, however the engine or its owner ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from engine.processes import children
from tiny import tiny_model, tiny_tokenizer

from harness.engines.base import EngineSpec
from harness.engines.vllm.engine import VllmEngine
from harness.errors import HarnessError

pytestmark = pytest.mark.engine

OWNER = """
import json, sys, time, psutil
from harness.engines.base import EngineSpec
from harness.engines.vllm.engine import VllmEngine
if __name__ == "__main__":
    engine = VllmEngine.open(EngineSpec("vllm", sys.argv[1], "bfloat16", 512))
    print(json.dumps([p.pid for p in psutil.Process().children(recursive=True)]), flush=True)
    time.sleep(300)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model that loads at once: its processes are what matters."""
    tiny_tokenizer(tmp_path)
    tiny_model(tmp_path, hidden=256)
    return tmp_path


def gone(pids: list[int], seconds: float) -> bool:
    """Whether all of ``pids`` have ended within ``seconds``."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        alive = [p for p in pids if psutil.pid_exists(p)]
        if all(psutil.Process(p).status() == psutil.STATUS_ZOMBIE for p in alive):
            return True
        time.sleep(0.2)
    return False


def test_failed_start_leaves_nothing_behind(folder, capfd):
    """Weights that cannot be read: one line with model and cause, no process, no noise."""
    (folder / "model.safetensors").write_bytes(b"broken")
    before = children()
    with pytest.raises(HarnessError) as caught:
        VllmEngine.open(EngineSpec("vllm", str(folder), "float32", 512))
    message = str(caught.value)
    assert message.startswith(f"vLLM could not start {folder}: SafetensorError")
    assert "\n" not in message
    assert children() <= before
    assert capfd.readouterr() == ("", "")


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_owner_takes_its_engine_along(folder, how):
    """Kill −9, a polite end and Ctrl-C of the owner: engine and worker follow in seconds."""
    script = folder / "owner.py"
    script.write_text(OWNER)
    command = [sys.executable, str(script), str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pids = json.loads(owner.stdout.readline())
        assert pids
        owner.send_signal(how)
        assert gone(pids, 20)
