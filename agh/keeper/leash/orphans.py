"""Processes that outlived their keeper and their leash: how to find them by a launch cookie, and end them.

Everything below a leash inherits `AGH_LAUNCH=<cookie>`. A process is an orphan of a launch if it carries that
very cookie, belongs to this user, and started in the same boot, not before the launch. All of it is checked
again on a pidfd before a signal is sent, so a reused pid is never hit. The cookie is a name, not a secret: it
counts only in the very directory of the launch, not in a copy of the home.

It never signals itself, its ancestors (an agent may run `agh`, which then carries the cookie too) or pid 1.
Out of its reach: a process that wiped its environment (`env -i`, sudo, some that rewrite their title), and
systems without /proc or pidfds (Linux before 5.3): nothing is ended there.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress

from agh.core.named_tuple import NamedTuple
from agh.keeper.leash.ahead import COOKIE_VARIABLE

PROC = "/proc"
LISTINGS = 20  # of one look; a busy machine starts processes all the time
KILL_LIMIT = 2.0  # seconds, after the grace


class Launch(NamedTuple):
    """What identifies a launch; recorded before the leash starts."""

    cookie: str
    boot_id: str
    ticks: int
    home: str = ""  # the identity of the session's directory: a copy of it has the cookie, too


class Orphan(NamedTuple):
    """A process that outlived its launch."""

    pid: int
    start_ticks: int
    comm: str  # chosen by the process itself


def new_cookie() -> str:
    return os.urandom(16).hex()


def new_launch(directory: str | os.PathLike[str], leash: int | None = None) -> Launch:
    """Return what will identify a launch. `leash` is a leash that was forked for it already."""
    ticks = now_ticks()
    if leash is not None:
        with suppress(OSError, ValueError, IndexError):
            ticks = _stat(leash).start_ticks
    return Launch(new_cookie(), boot_id(), ticks, identity(directory))


def identity(directory: str | os.PathLike[str]) -> str:
    """Return what tells a session's directory from a copy of it, and stays when it is moved."""
    info = os.stat(directory)
    return f"{info.st_dev:x}:{info.st_ino:x}"


def now_ticks() -> int:
    """Return the clock ticks since boot, comparable with /proc/<pid>/stat; 0 if there is no such clock."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return 0
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK") // 1_000_000_000


def boot_id() -> str:
    """Return what tells this boot from others, since ticks start again at each; empty if unknown."""
    with suppress(OSError):
        return _read(f"{PROC}/sys/kernel/random/boot_id").decode().strip()
    return ""


def find(launch: Launch) -> list[Orphan]:
    """Return the orphans of a launch."""
    return sorted(_search(launch))


def _search(launch: Launch) -> Iterator[Orphan]:
    """Yield the orphans, the youngest first: a process may live just long enough to fork another.

    So those that were started during the look are looked at, too, as long as there are some.
    """
    if not (launch.cookie and launch.boot_id) or launch.boot_id != boot_id():
        return
    passed = _self_and_ancestors()
    for _ in range(LISTINGS):
        try:
            pids = {int(name) for name in os.listdir(PROC) if name.isdigit()} - passed
        except OSError:
            return
        for pid in sorted(pids, reverse=True):
            if orphan := _identify(pid, launch):
                yield orphan
        if not pids:
            return
        passed |= pids


def end(launch: Launch, grace: float = 0.5) -> list[Orphan]:
    """Send SIGTERM and after the grace SIGKILL, until none is left or time is up; return those now gone."""
    targets: dict[int, _Target] = {}
    try:
        _add_targets(launch, targets)
        parents_first = [targets[pid] for pid in sorted(targets)]
        _send(parents_first, signal.SIGTERM)
        _send(parents_first, signal.SIGCONT)  # a stopped process gets SIGTERM only when it continues
        ended = _await(targets, time.monotonic() + grace)
        limit = time.monotonic() + KILL_LIMIT
        # Freeze them and look again until no process is left that could fork while the others are killed.
        _send(targets.values(), signal.SIGSTOP)
        empty_looks = 0  # three in a row, since a process in the middle of a fork or exec is not seen
        while empty_looks < 3 and time.monotonic() < limit:
            if _add_targets(launch, targets, freeze=True):
                empty_looks = 0
            else:
                _send(targets.values(), signal.SIGKILL)
                ended += _await(targets, limit)
                empty_looks += 1
        _send(targets.values(), signal.SIGKILL)
        ended += _await(targets, limit)
    finally:
        for target in targets.values():
            os.close(target.pidfd)
    return ended


class _Target(NamedTuple):
    orphan: Orphan
    pidfd: int  # never refers to another process, even if the pid is reused


def _add_targets(launch: Launch, targets: dict[int, _Target], *, freeze: bool = False) -> int:
    """Add the orphans that are not targets yet, freeze each at once if requested; return how many."""
    before = len(targets)
    for orphan in _search(launch):
        if orphan.pid in targets:
            continue
        try:
            pidfd = os.pidfd_open(orphan.pid)
        except (OSError, AttributeError):
            continue  # gone; or too many files are open, and it is added in a later round
        again = _identify(orphan.pid, launch)
        if again and again.start_ticks == orphan.start_ticks:
            targets[orphan.pid] = _Target(orphan, pidfd)
            if freeze:
                _send([targets[orphan.pid]], signal.SIGSTOP)
        else:
            os.close(pidfd)
    return len(targets) - before


def _send(targets: Iterable[_Target], number: signal.Signals) -> None:
    for target in targets:
        with suppress(OSError):
            signal.pidfd_send_signal(target.pidfd, number)


def _await(targets: dict[int, _Target], limit: float) -> list[Orphan]:
    """Wait for the targets to end; remove and return those that did."""
    poll = select.poll()
    by_pidfd = {target.pidfd: target.orphan for target in targets.values()}
    for pidfd in by_pidfd:
        poll.register(pidfd, select.POLLIN)
    ended = []
    while targets and (ready := poll.poll(max(0.0, limit - time.monotonic()) * 1000)):
        for pidfd, _ in ready:
            poll.unregister(pidfd)
            os.close(pidfd)
            ended.append(by_pidfd[pidfd])
            del targets[by_pidfd[pidfd].pid]
    return ended


def _identify(pid: int, launch: Launch) -> Orphan | None:
    try:
        # Reading environ costs half as much as stat, and rules out nearly all processes.
        environment = b"\0" + _read(f"{PROC}/{pid}/environ") + b"\0"
        if f"\0{COOKIE_VARIABLE}={launch.cookie}\0".encode() not in environment:
            return None
        if pid <= 1 or os.stat(f"{PROC}/{pid}").st_uid != os.geteuid():
            return None
        stat = _stat(pid)
    except (OSError, ValueError, IndexError):
        return None  # gone, or another user's
    return Orphan(pid, stat.start_ticks, stat.comm) if stat.start_ticks >= launch.ticks else None


class _Stat(NamedTuple):
    comm: str
    parent: int
    start_ticks: int


def _stat(pid: int) -> _Stat:
    head, _, tail = _read(f"{PROC}/{pid}/stat").rpartition(b")")  # the name may hold spaces and parentheses
    fields = tail.split()
    return _Stat(head.partition(b"(")[2].decode(errors="replace"), int(fields[1]), int(fields[19]))


def _self_and_ancestors() -> set[int]:
    spared, pid = set(), os.getpid()
    with suppress(OSError, ValueError, IndexError):
        while pid > 0 and pid not in spared:
            spared.add(pid)
            pid = _stat(pid).parent
    return spared


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        whole = b""
        while piece := os.read(fd, 1 << 17):
            whole += piece
        return whole
    finally:
        os.close(fd)
