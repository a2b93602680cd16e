"""Where a process comes from: its ancestors, and the launch cookie in its environment. Linux only."""

from __future__ import annotations

from agh.keeper.leash.ahead import COOKIE_VARIABLE


def lineage(pid: int) -> list[int]:
    """Return the process and its ancestors, the nearest first; nothing if it does not exist."""
    pids: list[int] = []
    while pid > 0 and pid not in pids:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            break
        pids.append(pid)
        pid = parent
    return pids


def carries(pid: int, cookie: str) -> bool:
    """Tell whether the environment with which a process was started has this launch cookie."""
    return f"{COOKIE_VARIABLE}={cookie}".encode() in _environment(pid)


def environment_has(pid: int, name: str) -> bool:
    """Tell whether the environment with which a process was started has this variable."""
    return any(entry.startswith(f"{name}=".encode()) for entry in _environment(pid))


def _environment(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []
