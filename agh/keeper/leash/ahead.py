"""How a keeper's process begins, before its other imports. Above all, it forks its first agent's leash.

The leash waits for its orders, so the agent does not wait for the leash. To start Python once more for it
would cost 13 ms of CPU time and 3.7 MB that nobody shares; a fork costs 2 ms and 2.3 MB. Everything else that
a keeper starts gets a leash by `spawn.start_leash`; so does the agent, if the leash that was forked for it is
dead. If the keeper dies, or needs no agent, the leash exits.

Nothing is imported here that takes long, or that a leash does not need.
"""

from __future__ import annotations

import marshal
import os
import sys

TYPE_CHECKING = False  # what type checkers read as true, without the cost of importing typing
if TYPE_CHECKING:
    from collections.abc import Iterable

ORPHAN = "orphan"  # the argument of a keeper that is to leave the tree of the process that starts it
COOKIE_VARIABLE = "AGH_LAUNCH"
PR_SET_CHILD_SUBREAPER = 36
_COMMAND_LINE, _ENVIRONMENT = 45, 47  # where /proc/self/stat, behind the name, says where they begin and end
LEASH = os.path.join(os.path.dirname(__file__), "leash.py")
_source = b""
_orders = -1  # where the leash that waits reads its orders
_process: tuple[int, ...] = ()  # its pid, and our ends of its pipes, as in LeashProcess


# `python -c RUN_KEEPER -m MODULE …` is `python -m MODULE …` for a keeper, without the 4 ms that runpy takes.
RUN_KEEPER = "from agh.keeper.leash.ahead import run_keeper; run_keeper()"


class LeashProcess:
    """A leash and our ends of its pipes (stderr is -1 if merged). Closing `life` kills all below it."""

    def __init__(self, leash_pid: int, stdin: int, stdout: int, stderr: int, life: int, status: int) -> None:
        self.leash_pid = leash_pid
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        self.life, self.status = life, status


def run_keeper() -> None:
    """Run the module that the arguments name as the keeper of a session."""
    import gc
    from importlib import import_module

    gc.disable()  # until all modules are loaded, see process.run: this saves a tenth of the start
    del sys.argv[:2]  # -c and -m
    leave_tree()
    fork_leash()  # before anything is loaded that a leash does not need
    import_module(sys.argv[0]).main()


def leave_tree() -> None:
    """Leave the tree of the process that started this keeper, if its arguments say so."""
    if ORPHAN in sys.argv[3:]:
        sys.argv.remove(ORPHAN)
        if os.fork():
            os._exit(0)
        os.setsid()  # whoever ends the group of the process above must not end this one


def adopt_orphans(adopt: bool = True) -> None:
    """Make this process the parent of every process below it whose own parent dies. Needs Linux."""
    try:
        import _ctypes  # as in leash.py, which imports nothing of agh

        address = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]
        _ctypes.call_function(address, (PR_SET_CHILD_SUBREAPER, int(adopt), 0, 0, 0))
    except (ImportError, OSError, AttributeError):
        pass


def load_leash() -> bytes:
    """Return the leash's source as it was when this process first asked for it."""
    global _source
    if not _source:
        with open(LEASH, "rb") as file:
            _source = file.read()
    return _source


def fork_leash() -> None:
    """Fork the leash, if the system lets us; else the agent gets one that is started for it.

    It closes the keeper's socket: the command takes the end of that for the end of the keeper.
    """
    global _orders, _process
    _import_for_leash()
    pipes: list[tuple[int, int]] = []
    try:
        for _ in range(6):
            pipes.append(os.pipe())
        pid = os.fork()
    except OSError:
        _close(fd for pipe in pipes for fd in pipe)
        return
    (agent_in, stdin), (stdout, agent_out), (stderr, agent_err), *others = pipes
    (life_end, life), (status, status_end), (orders_end, orders) = others
    if pid == 0:
        code = 1
        try:
            _close((int(sys.argv[2]), stdin, stdout, stderr, life, status, orders))
            code = _await_orders(orders_end, (agent_in, agent_out, agent_err), life_end, status_end)
        finally:
            os._exit(code)
    _close((agent_in, agent_out, agent_err, life_end, status_end, orders_end))
    _orders, _process = orders, (pid, stdin, stdout, stderr, life, status)


def _import_for_leash() -> None:
    """Import what the leash needs before it is forked: one that imports it by itself is 0.5 MB larger.

    Here, since a command that imports this module needs none of it.
    """
    import agh.keeper.leash.leash  # noqa: F401

    try:
        import _ctypes  # noqa: F401
    except ImportError:
        pass


def waiting_leash() -> int | None:
    """Return the pid of the leash that waits, if there is one."""
    return _process[0] if _process else None


def use_leash(argv: list[str], environ: dict[str, str], cwd: str) -> tuple[int, ...]:
    """Have the leash that waits start `argv`; return its pid and pipes, or nothing if there is none."""
    global _orders, _process
    if not _process:
        return ()
    os.chdir(cwd)  # raises an error if nothing can be started there
    os.chdir("/")  # where a keeper is
    orders, process = _orders, _process
    _orders, _process = -1, ()
    try:
        with open(orders, "wb") as pipe:
            pipe.write(marshal.dumps((argv, environ, cwd)))
    except BrokenPipeError:  # it was killed
        os.waitpid(process[0], 0)
        _close(process[1:])
        return ()
    return process


def _await_orders(orders: int, streams: tuple[int, int, int], life: int, status: int) -> int:
    """Wait for what to start, and be its leash until it has ended; return the exit code."""
    from agh.keeper.leash import leash

    os.setsid()
    _show(_COMMAND_LINE, ["leash.py", sys.argv[1]])
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
        os.close(fd)
    with open(orders, "rb") as pipe:
        text = pipe.read()
    if not text:
        return 0
    argv, environ, cwd = marshal.loads(text)
    # The cookie first: by that a leash which is frozen is found when its keeper has died.
    cookie_first = sorted(environ, key=lambda name: name != COOKIE_VARIABLE)
    _show(_ENVIRONMENT, [f"{name}={environ[name]}" for name in cookie_first])
    try:
        os.chdir(cwd)
    except OSError as error:
        leash.report_failure(status, error.errno or 0)
        return leash.EXEC_FAILED
    return leash.hold(life, status, argv, environ)


def _show(field: int, words: list[str]) -> None:
    """Have /proc and `ps` show these words, as many as fit, and not those of the keeper. Needs Linux."""
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        start, end = int(fields[field]), int(fields[field + 1])
        text = b""
        for word in map(os.fsencode, words):
            if len(text) + len(word) < end - start:
                text += word + b"\0"
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            memory.seek(start)
            memory.write(text.ljust(end - start, b"\0"))
    except (OSError, IndexError, ValueError):
        pass


def _close(fds: Iterable[int]) -> None:
    for fd in fds:
        os.close(fd)
