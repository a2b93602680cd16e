"""Processes as /proc describes them. Nothing here signals a process but `kill`."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


class Process(NamedTuple):
    """A process as /proc describes it."""

    pid: int
    argv: list[str]
    environ: dict[str, str]

    def __str__(self) -> str:
        return f"{self.pid} {' '.join(self.argv)}"


def look_at(pid: int) -> Process | None:
    """Return a living process of ours; None for one that is gone, a zombie, or somebody else's."""
    try:
        argv = _words(f"/proc/{pid}/cmdline")
        environ = _words(f"/proc/{pid}/environ") if argv else []
    except OSError:
        return None
    return (
        Process(pid, argv, dict(variable.split("=", 1) for variable in environ if "=" in variable))
        if argv
        else None
    )


def _words(path: str) -> list[str]:
    with open(path, "rb") as file:
        return file.read().decode(errors="replace").split("\0")[:-1]


def processes() -> list[Process]:
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [process for pid in pids if pid != os.getpid() and (process := look_at(pid))]


def carrying(cookie: str) -> list[Process]:
    """Return everything that was started below the leash of this launch and still lives."""
    return [process for process in processes() if process.environ.get("AGH_LAUNCH") == cookie]


def is_alive(pid: int) -> bool:
    """Tell whether a process has not ended: while it ends, it has files but no command line any more."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state = file.read().rpartition(b")")[2].split()[0]
    except OSError:
        return False
    return state not in (b"Z", b"X")


def open_files(pid: int) -> list[str]:
    """Return what a process has open, without what it closes meanwhile; nothing once it is gone."""
    files = []
    with suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                files.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return files


def has_open(pid: int, file: str) -> bool:
    return file in open_files(pid)


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def memory_of(pid: int, field: str = "VmRSS") -> float:
    """Return megabytes: VmRSS is what it has now, VmHWM the most it ever had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(field + ":"))) / 1024


def cpu_ticks_of(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
