"""The agent's parent: `python -I -S leash.py LIFE_FD STATUS_FD -- ARGV...`, with its source from a pipe.

It promises that nothing below it outlives the keeper. LIFE_FD is a pipe from the keeper: when it closes, the
keeper is gone, and everything below is killed at once. The byte `K` does the same; the byte `T` sends SIGTERM
to everything below. STATUS_FD carries JSON lines: `{"pid":N}` if the agent runs, `{"error":"…","errno":N}` if
it could not be started; `{"exit":N,"signal":null}` or `{"exit":null,"signal":N}` when it has ended. Then
whatever remains below is killed; when STATUS_FD closes, all is over.

It never reads or writes stdin, stdout or stderr: it passes them on and closes its own copies.
It spares keepers that an `agh acp` below it has started, and what is below those: they have sessions and
leashes of their own. A mark in their environment tells.
Out of its reach: a process that took another uid (sudo), one in uninterruptible sleep until it wakes, and a
hostile chain of them that each fork, leave their session and die faster than /proc can be read.
"""

import os
import select
import sys
import time

try:
    # `signal` without its enums, and in prctl() `ctypes` without its types: to import those takes as long as
    # to start Python, and every session waits for it.
    import _signal as signal  # type: ignore[import-not-found, unused-ignore]
except ImportError:
    import signal

PROC = "/proc"
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
END_LIMIT = 5.0  # seconds
EXEC_FAILED = 127
KEEPER_MARK = b"\0AGH_LAUNCH=keeper-"


def prctl(option: int, value: int) -> None:
    """Call prctl if this is Linux. Elsewhere only the agent's process group is killed, not what left it."""
    try:
        import _ctypes

        program = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]
        address = _ctypes.dlsym(program, "prctl")
        _ctypes.call_function(address, (option, value, 0, 0, 0))
    except (ImportError, OSError, AttributeError):
        pass


def report(status: int, line: str) -> None:
    """Write a line to STATUS_FD."""
    try:
        os.write(status, line.encode() + b"\n")
    except OSError:
        pass  # the keeper is gone, and LIFE_FD will close


def report_failure(status: int, errno: int) -> None:
    """Report why the agent could not be started."""
    report(status, f'{{"error":"{os.strerror(errno)}","errno":{errno}}}')


def start(argv: list[str], environ: dict[str, str], status: int) -> int | None:
    """Start the agent and return its pid once its exec has worked; None if it failed."""
    leash = os.getpid()
    failed, fails = os.pipe()  # close-on-exec: it closes when the exec has worked
    agent = os.fork()
    if agent == 0:
        try:
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != leash:  # it died before the line above, so that signal will never come
                os._exit(EXEC_FAILED)
            # In a session of its own no process group below can hold a stranger. So groups can be signalled,
            # which the kernel does in one step: nobody forks out of reach meanwhile.
            os.setsid()
            signal.set_wakeup_fd(-1)
            for each in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
                signal.signal(each, signal.SIG_DFL)  # all of them: Python itself ignores SIGPIPE and SIGXFSZ
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            os.execvpe(argv[0], argv, environ)
        except OSError as error:
            os.write(fails, str(error.errno).encode())
        finally:
            os._exit(EXEC_FAILED)
    os.close(fails)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    errno = int(os.read(failed, 16) or 0)
    if errno:
        report_failure(status, errno)
        return None
    report(status, f'{{"pid":{agent}}}')
    return agent


def parent_and_group(pid: int) -> tuple[int, int]:
    stat = os.open(f"{PROC}/{pid}/stat", os.O_RDONLY)
    try:
        fields = os.read(stat, 512).rpartition(b")")[2].split(None, 3)
        return int(fields[1]), int(fields[2])
    finally:
        os.close(stat)


def descend(roots: list[int], children: dict[int, list[int]]) -> set[int]:
    below = set()
    while roots:
        pids = children.pop(roots.pop(), [])
        below.update(pids)
        roots += pids
    return below


def is_keeper(pid: int) -> bool:
    """Tell whether a process is the keeper of a session that is not this one's."""
    try:
        with open(f"{PROC}/{pid}/environ", "rb") as environ:
            return KEEPER_MARK in b"\0" + environ.read()
    except OSError:
        return False


def groups_below(agent: int, strangers: set[int], keepers: set[int]) -> set[int]:
    """Return the process groups of all descendants: a subreaper adopts every orphan, so none leaves the tree.

    `strangers` collects the processes outside the tree, which are not read again: only a quick scan catches a
    process that lives just long enough to fork another. `keepers` are those among them that we have adopted.
    """
    try:
        pids = {int(name) for name in os.listdir(PROC) if name.isdigit()}
    except OSError:
        return {agent}
    strangers &= pids
    groups: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for pid in pids - strangers:
        try:
            parent, groups[pid] = parent_and_group(pid)
            children.setdefault(parent, []).append(pid)
        except (OSError, IndexError):
            pass  # it ended while we looked
    ours = children.get(os.getpid(), [])
    keepers.update(pid for pid in ours if is_keeper(pid))
    strangers |= keepers
    children[os.getpid()] = [pid for pid in ours if pid not in keepers]
    below = descend([os.getpid()], children)
    strangers |= descend([0, *strangers], children)
    return {groups[pid] for pid in below} - {0, 1, os.getpgrp()}  # killpg(1) would be kill(-1): everybody


def send(groups: set[int], number: int) -> None:
    for group in groups:
        try:
            os.killpg(group, number)
        except OSError:
            pass  # gone, or not ours any more


def reap(agent: int, status: int) -> tuple[bool, bool]:
    """Reap the dead and report the agent's exit; return whether it was among them, and if any are left."""
    ended = False
    try:
        while (dead := os.waitpid(-1, os.WNOHANG))[0]:
            if dead[0] == agent:
                ended, code = True, os.waitstatus_to_exitcode(dead[1])
                exit_code, number = (code, "null") if code >= 0 else ("null", -code)
                report(status, f'{{"exit":{exit_code},"signal":{number}}}')
    except ChildProcessError:
        return ended, False  # exact, unlike /proc: without a child, a subreaper has no descendants
    return ended, True


def ready(fds: list[int], milliseconds: int | None = None) -> list[int]:
    """Return those that can be read. Uses poll: select() takes no descriptor above 1023."""
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return [fd for fd, _ in poll.poll(milliseconds)]


def end_below(agent: int, status: int, wake: int) -> None:
    """Kill everything below, and return when it is gone or the time is up."""
    limit = time.monotonic() + END_LIMIT
    strangers: set[int] = set()
    keepers: set[int] = set()
    send({agent}, signal.SIGKILL)
    while reap(agent, status)[1] and time.monotonic() < limit:
        frozen: set[int] = set()
        # Freeze them first: killing a fork bomb piece by piece only makes room for new pieces.
        while (fresh := groups_below(agent, strangers, keepers) - frozen) and time.monotonic() < limit:
            send(fresh, signal.SIGSTOP)
            frozen |= fresh
        if keepers and not frozen:
            return  # only they are left
        send(frozen, signal.SIGKILL)
        if ready([wake], 10):
            os.read(wake, 4096)


def main() -> int:
    life, status, argv = int(sys.argv[1]), int(sys.argv[2]), sys.argv[4:]
    for fd in (life, status):
        os.set_inheritable(fd, False)
    return hold(life, status, argv, dict(os.environ))


def hold(life: int, status: int, argv: list[str], environ: dict[str, str]) -> int:
    """Start the agent and hold it until it has ended or the keeper has; return the exit code."""
    if os.getpgrp() != os.getpid():
        os.setsid()  # a signal for the keeper's group or terminal must not end the leash
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # without a handler nothing is written to the wake-up fd
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    agent = start(argv, environ, status)
    if agent is None:
        return EXEC_FAILED
    while True:
        woken = ready([life, wake])
        if wake in woken:
            os.read(wake, 4096)
            if reap(agent, status)[0]:
                break
        orders = os.read(life, 64) if life in woken else b"-"
        if not orders or b"K" in orders:
            break
        if b"T" in orders:
            groups = groups_below(agent, set(), set())
            send(groups, signal.SIGTERM)
            send(groups, signal.SIGCONT)  # a stopped process gets SIGTERM only when it continues
    end_below(agent, status, wake)
    return 0


if __name__ == "__main__":
    os._exit(main())
