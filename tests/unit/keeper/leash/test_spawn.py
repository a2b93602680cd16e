"""Starting processes: a child gets what is meant for it and nothing else, whoever starts others meanwhile."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agh.keeper.leash.spawn import spawn

LIST = "for fd in /proc/$$/fd/*; do readlink $fd; done"


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="it looks into /proc")
def test_threads_do_not_leak_into_each_others_children(tmp_path: Path) -> None:
    def start(number: int) -> None:
        mine, report = tmp_path / f"mine-{number}", tmp_path / f"report-{number}"
        kept = os.open(mine, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        null, out = os.open(os.devnull, os.O_RDWR), os.open(report, os.O_WRONLY | os.O_CREAT)
        try:
            pid = spawn(["/bin/sh", "-c", LIST], os.environ, (null, out, null), (kept,))
        finally:
            for fd in (kept, null, out):
                os.close(fd)
        os.waitpid(pid, 0)
        inherited = [line for line in report.read_text().splitlines() if "/mine-" in line]
        assert inherited == [str(mine)]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(start, range(120)))
    finally:
        sys.setswitchinterval(interval)
