"""Processes as /proc describes them. Nothing here signals a process but `kill`."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterable
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
        argv = _read(f"/proc/{pid}/cmdline")
        environ = _read(f"/proc/{pid}/environ") if argv else b""
    except OSError:
        return None
    return _parse(pid, argv, environ) if argv else None


def _parse(pid: int, argv: bytes, environ: bytes) -> Process:
    variables = [variable for variable in _words(environ) if "=" in variable]
    return Process(pid, _words(argv), dict(variable.split("=", 1) for variable in variables))


def _words(data: bytes) -> list[str]:
    return data.decode(errors="replace").split("\0")[:-1]


def _read(path: str) -> bytes:
    """Return a file of /proc, without the objects of `open`: a look at all processes reads hundreds."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = piece = os.read(fd, 1 << 16)
        while piece:
            data += (piece := os.read(fd, 1 << 16))
    finally:
        os.close(fd)
    return data


def processes() -> list[Process]:
    return [process for pid in _others() if (process := look_at(pid))]


def mentioning(words: Iterable[str]) -> list[Process]:
    """Return the living processes with one of these words in an argument or variable; parse only those."""
    marks = [os.fsencode(word) for word in words]
    matches = []
    for pid in _others():
        with suppress(OSError):
            argv = _read(f"/proc/{pid}/cmdline")
            if argv:
                environ = _read(f"/proc/{pid}/environ")
                if any(mark in argv or mark in environ for mark in marks):
                    matches.append(_parse(pid, argv, environ))
    return matches


def _others() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and name != str(os.getpid())]


def carrying(cookie: str) -> list[Process]:
    """Return everything that was started below the leash of this launch and still lives."""
    return [process for process in mentioning([cookie]) if process.environ.get("AGH_LAUNCH") == cookie]


def is_alive(pid: int) -> bool:
    """Tell whether a process has not ended: while it ends, it has files but no command line any more."""
    return _state_of(pid) not in ("Z", "X", "")


def is_asleep(pid: int) -> bool:
    """Tell whether a process waits for something that happens outside it."""
    return _state_of(pid) == "S"


def _state_of(pid: int) -> str:
    """Return the letter of a process's state; empty if it is gone."""
    try:
        return _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[0].decode()
    except OSError:
        return ""


def wait_for_end(pid: int, limit: float) -> bool:
    """Sleep until a process has ended, at most `limit` seconds; tell whether it has."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([fd], [], [], limit)[0])
    finally:
        os.close(fd)


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


def parent_of(pid: int) -> int:
    return int(_read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[1])


def memory_of(pid: int, field: str = "VmRSS") -> float:
    """Return megabytes: VmRSS is what it has now, VmHWM the most it ever had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(field + ":"))) / 1024


def cpu_ticks_of(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
