"""What outlived its keeper and its leash: found by a launch cookie, and ended.

Everything below a leash inherits `AGH_LAUNCH=<cookie>`. A process is an orphan of a launch if it carries that
very cookie, belongs to this user, and started in the same boot, not before the launch. All of it is checked
again on a pidfd before a signal goes out, so a reused pid is never hit. The cookie is a name, not a secret.

It never signals itself, its ancestors (an agent may run `agh`, which then carries the cookie too) or pid 1.
Out of its reach: a process that wiped its environment (`env -i`, sudo, some that rewrite their title), and
systems without /proc or pidfds (Linux before 5.3): nothing is ended there.
"""

import os
import select
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

COOKIE_VARIABLE = "AGH_LAUNCH"
PROC = "/proc"
KILL_LIMIT = 2.0  # seconds, after the grace


class Launch(NamedTuple):
    """Recorded before the leash starts."""

    cookie: str
    boot_id: str
    ticks: int


class Orphan(NamedTuple):
    pid: int
    start_ticks: int
    comm: str  # chosen by the process itself


def new_cookie() -> str:
    return os.urandom(16).hex()


def new_launch() -> Launch:
    return Launch(new_cookie(), boot_id(), now_ticks())


def now_ticks() -> int:
    """Clock ticks since boot, on the clock of the start times in /proc/<pid>/stat; 0 where there is none."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return 0
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK") // 1_000_000_000


def boot_id() -> str:
    """Ticks start again at every boot; this does not repeat. Empty where there is none."""
    with suppress(OSError):
        return _read(f"{PROC}/sys/kernel/random/boot_id").decode().strip()
    return ""


def find(launch: Launch) -> list[Orphan]:
    return sorted(_each(launch))


def _each(launch: Launch) -> Iterator[Orphan]:
    """Every orphan, the youngest first: one that lives just long enough to fork is only met at once."""
    if not (launch.cookie and launch.boot_id) or launch.boot_id != boot_id():
        return
    spared = _self_and_ancestors()
    try:
        pids = [int(name) for name in os.listdir(PROC) if name.isdigit()]
    except OSError:
        return
    for pid in sorted(pids, reverse=True):
        if pid not in spared and (orphan := _identify(pid, launch)):
            yield orphan


def end(launch: Launch, grace: float = 0.5) -> list[Orphan]:
    """SIGTERM, a time of grace, SIGKILL, until none is left or the time is up. The answer: those now gone."""
    held: dict[int, _Held] = {}
    try:
        _hold(launch, held)
        parents_first = [held[pid] for pid in sorted(held)]
        _send(parents_first, signal.SIGTERM)
        _send(parents_first, signal.SIGCONT)  # a stopped process hears SIGTERM only when it goes on
        ended = _await(held, time.monotonic() + grace)
        limit = time.monotonic() + KILL_LIMIT
        # Freeze, and look again, until none is left that could fork while the others are killed.
        _send(held.values(), signal.SIGSTOP)
        empty_looks = 0  # three in a row: in the middle of an exec, or of a fork, a process is not seen
        while empty_looks < 3 and time.monotonic() < limit:
            if _hold(launch, held, freeze=True):
                empty_looks = 0
            else:
                _send(held.values(), signal.SIGKILL)
                ended += _await(held, limit)
                empty_looks += 1
        _send(held.values(), signal.SIGKILL)
        ended += _await(held, limit)
    finally:
        for each in held.values():
            os.close(each.pidfd)
    return ended


class _Held(NamedTuple):
    orphan: Orphan
    pidfd: int  # no other process can ever come to stand behind it


def _hold(launch: Launch, held: dict[int, _Held], *, freeze: bool = False) -> int:
    """Take hold of those found and not held yet, and freeze each at once; how many there were."""
    before = len(held)
    for orphan in _each(launch):
        if orphan.pid in held:
            continue
        try:
            pidfd = os.pidfd_open(orphan.pid)
        except (OSError, AttributeError):
            continue  # gone; or too many files open, and it comes in a later round
        again = _identify(orphan.pid, launch)
        if again and again.start_ticks == orphan.start_ticks:
            held[orphan.pid] = _Held(orphan, pidfd)
            if freeze:
                _send([held[orphan.pid]], signal.SIGSTOP)
        else:
            os.close(pidfd)
    return len(held) - before


def _send(targets: Iterable[_Held], number: signal.Signals) -> None:
    for each in targets:
        with suppress(OSError):
            signal.pidfd_send_signal(each.pidfd, number)


def _await(held: dict[int, _Held], limit: float) -> list[Orphan]:
    """Wait for the held ones to end, and let go of those that did."""
    poll = select.poll()
    by_pidfd = {each.pidfd: each.orphan for each in held.values()}
    for pidfd in by_pidfd:
        poll.register(pidfd, select.POLLIN)
    ended = []
    while held and (ready := poll.poll(max(0.0, limit - time.monotonic()) * 1000)):
        for pidfd, _ in ready:
            poll.unregister(pidfd)
            os.close(pidfd)
            ended.append(by_pidfd[pidfd])
            del held[by_pidfd[pidfd].pid]
    return ended


def _identify(pid: int, launch: Launch) -> Orphan | None:
    try:
        # Half the cost of stat, and it rules nearly all out.
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
