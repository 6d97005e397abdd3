"""Engine processes write to a file, from which a failure's cause is read."""

from __future__ import annotations

import subprocess
import sys

from harness.engines.vllm.childlog import ChildLog, find_cause


def test_children_write_to_the_file_and_we_do_not_afterwards(capfd):
    """Both streams of a process started inside; ours are back at the end."""
    log = ChildLog()
    command = "import sys; print('out'); print('ValueError: bad head size', file=sys.stderr)"
    with log.capture():
        subprocess.run([sys.executable, "-c", command], check=True)
    print("mine")
    assert set(log.text().split("\n")) == {"out", "ValueError: bad head size", ""}
    assert capfd.readouterr().out == "mine\n"
    assert log.cause() == "ValueError: bad head size"
    log.close()
    log.close()
    assert log.cause() is None


def test_cause_is_the_last_exception_below_vllms_own():
    """VLLM reports a worker's failure twice over; the innermost line is the one to show."""
    text = """
(Worker pid=7) KeyError: 'first'
(Worker pid=7) OSError: no file named model.safetensors
(EngineCore pid=3) Exception: WorkerProc initialization failed due to an exception
RuntimeError: Engine core initialization failed. See root cause above.
"""
    assert find_cause(text) == "OSError: no file named model.safetensors"
    assert find_cause("all is well") is None
