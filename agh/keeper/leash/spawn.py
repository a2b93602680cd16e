"""Starting processes: a keeper from a command, a leash with its agent from a keeper.

By posix_spawn, which costs no import and shares no memory with the parent. Only the descriptors that
are named reach the child, also when several threads start processes at once.

A leash runs the source that `load_leash` has read, not the file: an upgrade may have replaced that, and a
leash must fit its keeper. The leash of a keeper's first agent is forked instead: see ahead.py.
"""

from __future__ import annotations

import _thread
import os
import sys

from agh.keeper.leash.ahead import LeashProcess, load_leash

TYPE_CHECKING = False  # what type checkers read as true, without the cost of importing typing
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RUN_SOURCE = "exec(compile(open({}, 'rb').read(), 'leash.py', 'exec'))"
_spawning = _thread.allocate_lock()  # else another thread's child would inherit the descriptors


def spawn(
    argv: Sequence[str], environ: Mapping[str, str], streams: tuple[int, int, int], keep: Sequence[int] = ()
) -> int:
    """Start a process that leads its own session, and return its pid. It inherits `keep`, same numbers."""
    actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(streams)]
    with _spawning:
        for fd in keep:
            os.set_inheritable(fd, True)
        try:
            return os.posix_spawn(argv[0], list(argv), environ, file_actions=actions, setsid=True)
        finally:
            for fd in keep:
                os.set_inheritable(fd, False)


def start_leash(
    argv: Sequence[str], environ: Mapping[str, str], cwd: str | int, *, merged: bool = False
) -> LeashProcess:
    """Start `argv` below a leash, in `cwd`, which is a path or a descriptor.

    `merged` sends its errors down the same pipe as its output.
    """
    opened: list[int] = []

    def pipe() -> tuple[int, int]:
        ends = os.pipe()
        opened.extend(ends)
        return ends

    try:
        agent_in, stdin = pipe()
        stdout, agent_out = pipe()
        stderr, agent_err = (-1, agent_out) if merged else pipe()
        life_end, life = pipe()
        status, status_end = pipe()
        source, source_end = pipe()
        program = [sys.executable, "-I", "-S", "-c", RUN_SOURCE.format(source)]
        command = [*program, str(life_end), str(status_end), "--", *argv]
        before = os.open(".", os.O_RDONLY | os.O_CLOEXEC)
        opened.append(before)
        try:
            os.chdir(cwd)
            pid = spawn(command, environ, (agent_in, agent_out, agent_err), (source, life_end, status_end))
        finally:
            os.fchdir(before)
    except BaseException:  # leak no descriptor: an agent can make this fail as often as it likes
        for fd in opened:
            os.close(fd)
        raise
    for fd in {before, agent_in, agent_out, agent_err, life_end, status_end, source}:
        os.close(fd)
    _send_source(source_end)
    return LeashProcess(pid, stdin, stdout, stderr, life, status)


def _send_source(pipe: int) -> None:
    """Write the leash's source to the pipe that the leash reads it from. A leash that is gone gets none."""
    try:
        with open(pipe, "wb") as file:
            file.write(load_leash())
    except BrokenPipeError:
        pass
