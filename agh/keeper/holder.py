"""The process that holds a session's lock: how to find it, and kill it when it does not respond.

It is found by its open lock file: the kernel says of every descriptor which locks it holds. So a pid in
meta.json, which may be old, decides nothing. Only keepers of this user are killed, through a pidfd and after
a second look, so that a reused pid is never hit. Without /proc nothing is found.
"""

from __future__ import annotations

import os
import select
from contextlib import suppress

from agh.home import Session, is_session_id

PROC = "/proc"
KILL = 9  # SIGKILL; the module `signal` is slow to import


def kill_keeper(session: Session, limit: float = 5.0) -> bool:
    """Kill the keeper that holds the session's lock, and wait until it is gone; False if there is none."""
    lock = os.path.join(session, "lock")
    for pid in _keepers(session):
        try:
            pidfd = os.pidfd_open(pid)
        except (OSError, AttributeError):
            continue
        try:
            if _holds(pid, lock) and _is_keeper(pid, session):
                import signal

                signal.pidfd_send_signal(pidfd, KILL)
                poll = select.poll()
                poll.register(pidfd, select.POLLIN)
                return bool(poll.poll(limit * 1000))
        except ProcessLookupError:
            continue
        finally:
            os.close(pidfd)
    return False


def _keepers(session: Session) -> list[int]:
    try:
        pids = [int(name) for name in os.listdir(PROC) if name.isdigit()]
    except OSError:
        return []
    return [pid for pid in pids if pid != os.getpid() and _is_keeper(pid, session)]


def _is_keeper(pid: int, session: Session) -> bool:
    """Tell whether a process of ours was started as the keeper of this session."""
    try:
        with open(f"{PROC}/{pid}/cmdline", "rb") as file:
            argv = [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]
        session_id = os.path.basename(argv[argv.index("-m") + 2])  # -m MODULE DIRECTORY …
        ours = os.stat(f"{PROC}/{pid}").st_uid == os.geteuid()
        return ours and session_id == session.id and is_session_id(session_id)
    except (OSError, IndexError, ValueError):
        return False


def _holds(pid: int, lock: str) -> bool:
    """Tell whether a process holds a lock on this file."""
    with suppress(OSError):
        target = os.stat(lock)
        for fd in os.listdir(f"{PROC}/{pid}/fd"):
            with suppress(OSError):
                info = os.stat(f"{PROC}/{pid}/fd/{fd}")
                if (info.st_dev, info.st_ino) != (target.st_dev, target.st_ino):
                    continue
                with open(f"{PROC}/{pid}/fdinfo/{fd}", "rb") as file:
                    if any(line.startswith(b"lock:") and b"WRITE" in line for line in file):
                        return True
    return False
