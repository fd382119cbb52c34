from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from benchmarks import cpu


def test_processes_that_this_one_started_count() -> None:
    before = cpu.cpu_seconds()
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        deadline = time.monotonic() + 30
        while cpu.cpu_seconds() < before + 0.1 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert cpu.cpu_seconds() >= before + 0.1
        busy.kill()


def test_process_that_ended_since_it_was_listed_counts_nothing() -> None:
    assert cpu._read(Path("/proc/self/task/0/children")) == ""
