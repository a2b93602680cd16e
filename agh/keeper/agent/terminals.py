"""Terminals for the agent: the commands it asks us to run, each below its own leash, so none outlives us.

An editor that has the session open may run them instead: see keeper/lending.py.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import signal
from collections.abc import Callable
from typing import Any

from agh.adapters.agents import find_program
from agh.core.acp.frames import Request
from agh.core.acp.tool_result import newest
from agh.core.rules import Asking
from agh.home import real_path
from agh.keeper.agent import permissions
from agh.keeper.agent.boundary import is_inside
from agh.keeper.agent.exact import open_directory
from agh.keeper.agent.files import REFUSED, refuse
from agh.keeper.agent.tool_call import words_of
from agh.keeper.leash.ahead import COOKIE_VARIABLE
from agh.keeper.leash.child import KILL_LIMIT, Leashed
from agh.keeper.loop import Loop
from agh.keeper.session import AgentSide, Live

OUTPUT_LIMIT = 1 << 20
RESOURCE_NOT_FOUND = -32002
RESERVED_DESCRIPTORS = 64
MAX_RELEASED = 100
MARKS = (COOKIE_VARIABLE, "AGH_SESSION_ID")  # what tells that a process is the agent's, wherever it runs
_RISKY_VARIABLES = re.compile(
    r"PATH|IFS|ENV|BASH_\w+|SHELL\w*|PS4|(LD|DYLD|GIT|NODE|NPM|PYTHON|PERL|RUBY|JAVA|SSH)_?\w*|\w*(PRELOAD|PAGER|"
    r"EDITOR|BROWSER|ASKPASS)"
)


class Terminal:
    """A running or finished command and the newest part of its output."""

    def __init__(self, loop: Loop, argv: list[str], environ: dict[str, str], cwd: int, limit: int) -> None:
        self.output = bytearray()
        self.truncated = False
        self.waiting: list[Callable[[dict[str, Any]], None]] = []
        self._limit = limit
        self.process = Leashed(loop, argv, environ, cwd, self._take, self._ended, merged=True)
        self.process.close_stdin()

    def exit_status(self) -> dict[str, Any] | None:
        """Return how the command ended, as the protocol has it; None while it runs."""
        if not self.process.over:
            return None
        ended = self.process.exit or {"exit": 127}
        return {"exitCode": ended.get("exit"), "signal": signal_name(ended.get("signal"))}

    def text(self) -> str:
        """Return the output, from the first whole character that is left of it."""
        start = 0
        while start < min(4, len(self.output)) and self.truncated and self.output[start] & 0xC0 == 0x80:
            start += 1
        return bytes(self.output[start:]).decode(errors="replace")

    def _take(self, stream: int, data: bytes) -> None:
        self.output += data
        if len(self.output) > self._limit:
            self.truncated = True
            del self.output[: len(self.output) - self._limit]

    def _ended(self) -> None:
        waiting, self.waiting = self.waiting, []
        for reply in waiting:
            reply(self.exit_status() or {})


def signal_name(number: int | None) -> str | None:
    """Return the name of a signal, as in SIGKILL; a signal without a name keeps its number."""
    try:
        return None if number is None else signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


def create(live: Live, frame: Request, params: dict[str, Any]) -> None:
    """Inside a batch: serve `terminal/create`."""
    args = params.get("args") or []
    if not isinstance(params["command"], str) or not isinstance(args, list):
        raise ValueError("command must be a string, args a list")
    argv = [params["command"], *map(str, args)]
    extra = {str(variable["name"]): str(variable["value"]) for variable in params.get("env") or []}
    cwd = os.path.abspath(str(params.get("cwd") or live.cwd))
    limit = params.get("outputByteLimit")
    limit = OUTPUT_LIMIT if limit is None else max(0, min(int(limit), OUTPUT_LIMIT))
    if any("\0" in text for text in (*argv, *extra, *extra.values(), cwd)) or any(
        "=" in name or not name for name in extra
    ):
        raise ValueError("command, env and cwd must be plain strings")
    is_line = len(argv) == 1 and find_program(argv[0]) is None  # agents send whole shell lines as the command
    line = with_environment(argv[0] if is_line else shlex.join(argv), extra)
    agent = live.agent.connected
    outside = f"{cwd} is outside the workspace {live.cwd}"
    real = real_path(cwd)
    if real is None or not is_inside(live.folders, real):
        refuse(live, frame, "execute", line, outside)
        return
    if is_line:
        argv = ["/bin/sh", "-c", argv[0]]

    def finish(option: dict[str, Any] | None) -> None:
        if not permissions.is_allowed(option):
            agent.refuse(frame.id, REFUSED, f"not allowed to run {line}")
            return
        lending = live.agent.lending
        marks = {name: live.agent.environ[name] for name in MARKS if name in live.agent.environ}
        request = {
            "command": argv[0],
            "args": argv[1:],
            "env": [{"name": name, "value": value} for name, value in (extra | marks).items()],
            "cwd": real,
            "outputByteLimit": limit,
        }
        if lending is None or not lending.create_terminal(frame.id, request, run_here):
            run_here()

    def run_here() -> None:
        try:
            _reserve_descriptors()
            terminal_id = "term-" + os.urandom(4).hex()
            environ = {**live.agent.environ, **extra}
            folder = open_directory(real)  # where it was when it was decided about, or nowhere
            try:
                live.agent.terminals[terminal_id] = Terminal(live.loop, argv, environ, folder, limit)
            finally:
                os.close(folder)
            agent.reply(frame.id, {"terminalId": terminal_id})
        except (OSError, ValueError) as error:
            agent.refuse(frame.id, REFUSED, str(error))

    permissions.ask(
        live,
        Asking("execute", frame.method, (), line, words_of(line, cwd)),
        title=None,
        options=permissions.YES_OR_NO,
        raw=frame.raw,
        finish=finish,
        rpc_id=frame.id,
    )


def with_environment(line: str, extra: dict[str, str]) -> str:
    """Return a command line with the variables that change what it runs: they are shown and judged too."""
    risky = {name: value for name, value in extra.items() if _RISKY_VARIABLES.fullmatch(name)}
    return " ".join([*(f"{name}={shlex.quote(value)}" for name, value in risky.items()), line])


def _reserve_descriptors() -> None:
    """Refuse a terminal that would use up the descriptors: no command could reach the keeper any more."""
    limit = os.sysconf("SC_OPEN_MAX")  # -1 if there is none
    try:
        number = len(os.listdir("/dev/fd"))
    except FileNotFoundError:
        return  # unknown here; a terminal that gets no descriptor is refused anyway
    if 0 < limit < number + RESERVED_DESCRIPTORS:
        raise OSError(errno.EMFILE, "too many terminals are open")


def output(live: Live, frame: Request, params: dict[str, Any]) -> None:
    """Inside a batch: serve `terminal/output`."""

    def read(terminal: Terminal) -> dict[str, Any]:
        result = {"output": terminal.text(), "truncated": terminal.truncated}
        status = terminal.exit_status()
        return result | ({"exitStatus": status} if status else {})

    _use(live, frame, params, read)


def kill(live: Live, frame: Request, params: dict[str, Any]) -> None:
    """Inside a batch: serve `terminal/kill`."""

    def end(terminal: Terminal) -> dict[str, Any]:
        terminal.process.kill()
        return {}

    _use(live, frame, params, end)


def release(live: Live, frame: Request, params: dict[str, Any]) -> None:
    """Inside a batch: serve `terminal/release`."""

    def forget(terminal: Terminal) -> dict[str, Any]:
        name = str(params["terminalId"])
        live.agent.released[name] = newest(terminal.text())  # its tool call may not be finished yet
        if len(live.agent.released) > MAX_RELEASED:
            del live.agent.released[next(iter(live.agent.released))]
        terminal.process.kill()
        live.agent.terminals.pop(name, None)
        ending = live.agent.ending_terminals
        ending[:] = [each for each in (*ending, terminal) if not each.process.over]
        return {}

    _use(live, frame, params, forget)


def wait_for_exit(live: Live, frame: Request, params: dict[str, Any]) -> None:
    """Inside a batch: serve `terminal/wait_for_exit`."""
    agent = live.agent.connected

    def wait(terminal: Terminal) -> dict[str, Any] | None:
        if not terminal.process.over:
            terminal.waiting.append(lambda status: agent.reply(frame.id, status))
        return terminal.exit_status()

    _use(live, frame, params, wait)


def output_of(agent: AgentSide, name: str) -> str | None:
    """Return what the command in a terminal has printed; None if there is no such terminal."""
    terminal = agent.terminals.get(name)
    lent = agent.lending.output_of(name) if agent.lending is not None and terminal is None else None
    return terminal.text() if terminal else agent.released.get(name, lent)


def end_all(live: Live) -> bool:
    """Kill everything that runs in the agent's terminals; return whether all of it is gone in time."""
    processes = [each.process for each in (*live.agent.terminals.values(), *live.agent.ending_terminals)]
    for process in processes:
        process.kill()
    return live.loop.run_until(lambda: all(process.over for process in processes), KILL_LIMIT)


def _use(
    live: Live, frame: Request, params: dict[str, Any], act: Callable[[Terminal], dict[str, Any] | None]
) -> None:
    """Inside a batch: act on the terminal that is named, and reply with the result, if any."""
    agent, name = live.agent.connected, str(params["terminalId"])

    def answer() -> None:
        terminal, lending = live.agent.terminals.get(name), live.agent.lending
        if terminal is None and lending is not None and lending.use_terminal(frame, name):
            return
        if terminal is None:
            agent.refuse(frame.id, RESOURCE_NOT_FOUND, f"there is no terminal {name}")
            return
        result = act(terminal)
        if result is not None:
            agent.reply(frame.id, result)

    live.log.then(lambda: agent.answer(frame.id, answer))
