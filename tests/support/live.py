"""Live sessions under test: the installed program, real keepers, the scripted agent, real processes.

The fixture `live` ends every session of the test's home and then asserts that nothing is left: no process
that knows the home, one of its sessions, or a launch cookie of one. Only processes found that way are ever
signalled. Every wait has a limit.
"""

from __future__ import annotations

import json
import os
import select
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from agh_echo.plugin import RUN

from agh import home
from agh.cli.main import root
from agh.cli.session.new import check_options, new_command
from agh.errors import AghError
from agh.home import is_session_id
from agh.keeper import client, protocol
from agh.sessions.new import create
from agh.sessions.start import ensure_live
from agh.store import lock
from agh.store.catch_up import await_metadata
from agh.store.reader import Reader
from tests.support.processes import (
    Process,
    children_of,
    has_open,
    is_asleep,
    kill,
    look_at,
    mentioning,
    wait_for_end,
)
from tests.support.program import ALWAYS_EXEC, Agh
from tests.support.wait import PATIENCE, wait_until

GONE_WITHIN = 2.0  # seconds from a keeper's death to the end of everything below it
ECHO = (sys.executable, "-P", "-c", RUN, "agh_echo")


class Event(NamedTuple):
    sequence: int
    turn_id: str
    type: str
    content: dict[str, Any]


class Since(NamedTuple):
    """The last rows that a test of a shared session does not look at."""

    event: int = 0
    prompt: int = 0
    permission: int = 0


class Session:
    """A session of the test's home, seen from outside."""

    def __init__(self, live: Live, session_id: str) -> None:
        self.live, self.id = live, session_id
        self.directory = live.home / "sessions" / session_id
        self.since = Since()

    def from_now(self) -> Session:
        """Return the same session without the events, prompts and requests that it has had so far."""
        session = Session(self.live, self.id)
        tables = ("max(sequence) FROM events", "max(id) FROM inputs", "max(rowid) FROM permissions")
        session.since = Since(*(self.fetch(f"SELECT {table}")[0][0] or 0 for table in tables))
        return session

    # What the program says and does.

    def agh(self, verb: str, *args: object, **options: Any) -> subprocess.CompletedProcess[str]:
        return self.live.agh("session", verb, self.id, *args, **options)

    def prompt(self, text: str, *args: object, **options: Any) -> subprocess.CompletedProcess[str]:
        return self.agh("prompt", text, *args, **options)

    def say(self, text: str, *args: object, **options: Any) -> str:
        """Send a prompt by the command; return what the agent said."""
        return self.prompt(text, *args, "-o", "text", **options).stdout.rstrip("\n")

    def turn(self, text: str, *args: object, **options: Any) -> dict[str, Any]:
        """Send a prompt by the command; return its turn as `-o json` describes it."""
        turn: dict[str, Any] = json.loads(self.prompt(text, *args, "-o", "json", **options).stdout)["turn"]
        return turn

    def start_prompt(self, text: str, *args: object, **options: Any) -> subprocess.Popen[bytes]:
        return self.live.start("session", "prompt", self.id, text, *args, **options)

    # The same without a process of its own, for what a test needs and does not look at.

    def call(self, verb: str, **args: Any) -> dict[str, Any]:
        return client.call(home.Session.at(self.directory), verb, **args)

    def decide(self, verdict: str) -> dict[str, Any]:
        """Answer the oldest permission request that waits."""
        oldest = "SELECT request_id FROM permissions WHERE status = 'pending' ORDER BY rowid LIMIT 1"
        ((request_id,),) = wait_until(lambda: self.fetch(oldest), what="a request")
        return self.call("decide", request_id=request_id, verdict=verdict)

    def revive(self) -> int:
        """Make the session live if it is not; return the pid of its keeper, which is then our child."""
        hello = ensure_live(home.Session.at(self.directory))
        if hello["started"]:
            self.live.children.append(hello["pid"])
        return int(hello["pid"])

    def send(self, text: str) -> str:
        """Send a prompt to the live session; return the id of its turn."""
        return str(self.call("prompt", prompt=[{"type": "text", "text": text}])["turn_id"])

    def tell(self, text: str) -> str:
        """Send a prompt to the live session; return what the agent said when the turn has ended."""
        turn_id = self.send(text)
        wait_until(lambda: self.has_ended(turn_id), what=text)
        self.wait_for_metadata()
        return self.text(turn_id)

    def has_ended(self, turn_id: str) -> bool:
        return bool(self.events("done", "error", turn=turn_id))

    def wait_idle(self, limit: float = PATIENCE) -> None:
        """Wait until no prompt is running or queued."""
        wait_until(lambda: not {status for status, _ in self.inputs()} & {"queued", "dispatching"}, limit)
        self.wait_for_metadata()

    def cancel_all(self) -> None:
        """Cancel whatever is running or queued in the live session."""

        def is_idle() -> bool:
            if busy := {status for status, _ in self.inputs()} & {"queued", "dispatching"}:
                with suppress(AghError):  # it has ended by itself
                    self.call("cancel")
            return not busy

        wait_until(is_idle)
        self.wait_for_metadata()

    def wait_for_metadata(self) -> None:
        """Wait until meta.json has what the log has; the keeper writes it a moment later."""
        ((last,),) = self.fetch("SELECT max(sequence) FROM events WHERE type IN ('done', 'error')")
        await_metadata(home.Session.at(self.directory), last or 0)

    def wait_for_text(self, text: str) -> None:
        """Wait until the agent has said this."""
        wait_until(lambda: text in self.text(), what=text)

    def stop(self) -> None:
        """Stop the live session, and wait for its keeper to be gone."""
        keeper = self.keeper
        self.call("stop")
        assert wait_for_end(keeper, PATIENCE)

    def status(self) -> dict[str, Any]:
        session: dict[str, Any] = json.loads(self.agh("status", "-o", "json").stdout)["session"]
        return session

    def error(self, verb: str, *args: object, code: int, **options: Any) -> dict[str, Any]:
        """Return the error object of a command that must fail with this exit number."""
        result = self.agh(verb, *args, "-o", "json", code=code, **options)
        error: dict[str, Any] = json.loads(result.stderr.splitlines()[-1])["error"]
        return error

    # What is on disk.

    def meta(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.directory / "meta.json").read_bytes())
        return document

    def fetch(self, sql: str, *values: object) -> list[Any]:
        with Reader(home.Session.at(self.directory)) as reader:
            return reader.fetch(sql, values)

    def events(self, *types: str, turn: str | None = None) -> list[Event]:
        terms = [f"type IN ({','.join('?' * len(types))})" if types else "1", "turn_id = ?" if turn else "1"]
        columns = "sequence, turn_id, type, content"
        sql = f"SELECT {columns} FROM events WHERE {' AND '.join(terms)} AND sequence > ? ORDER BY sequence"
        rows = self.fetch(sql, *types, *([turn] if turn else []), self.since.event)
        return [Event(number, turn_id, type, json.loads(text)) for number, turn_id, type, text in rows]

    def count(self, *types: str) -> int:
        marks = ",".join("?" * len(types))
        sql = f"SELECT count(*) FROM events WHERE type IN ({marks}) AND sequence > ?"
        return int(self.fetch(sql, *types, self.since.event)[0][0])

    def text(self, turn: str | None = None) -> str:
        """Return everything that the agent said."""
        return "".join(event.content["text"] for event in self.events("agent_message", turn=turn))

    def inputs(self) -> list[tuple[str, str]]:
        """Return each input's status and text, oldest first."""
        rows = self.fetch("SELECT status, prompt FROM inputs WHERE id > ? ORDER BY id", self.since.prompt)
        return [(status, json.loads(prompt)[0]["text"]) for status, prompt in rows]

    def markers(self) -> list[str]:
        return [event.content["kind"] for event in self.events("transcript_marker.created")]

    # Its processes.

    def hello(self) -> dict[str, Any]:
        return self.call("hello")

    def is_live(self) -> bool:
        return lock.is_held(home.Session.at(self.directory))

    @property
    def keeper(self) -> int:
        return int(self.hello()["pid"])

    @property
    def agent(self) -> int:
        return int(self.hello()["agent_pid"])

    @property
    def leash(self) -> int:
        below = filter(None, map(look_at, children_of(self.keeper)))
        (pid,) = [process.pid for process in below if "leash.py" in str(process)]
        return pid

    @property
    def cookie(self) -> str:
        cookie = self.meta()["launch"]["cookie"]
        self.live.cookies.add(cookie)
        return str(cookie)

    def kill_keeper(self) -> str:
        """Kill the keeper; return the launch cookie that everything below carried."""
        cookie = self.cookie
        kill(self.keeper)
        wait_until(lambda: not self.is_live(), what="the kernel frees the lock")
        return cookie

    def connect(self) -> socket.socket:
        """Return a raw connection to the control socket."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(PATIENCE)
        with protocol.short_path(home.Session.at(self.directory)) as address:
            connection.connect(address)
        return connection

    def check_log(self) -> None:
        """Check what must hold of every log at every time."""
        events = self.events()
        first = self.since.event + 1
        assert [event.sequence for event in events] == list(range(first, first + len(events)))
        for kind in ("user_message", "done", "error"):
            turns = [event.turn_id for event in events if event.type == kind]
            assert len(turns) == len(set(turns)), f"two {kind} events in one turn"
        ends = [event.turn_id for event in events if event.type in ("done", "error")]
        assert len(ends) == len(set(ends)), "a turn ended twice"


Share = Callable[..., Session]  # the fixture `shared_with`


class Live:
    """A home with live sessions in it."""

    def __init__(self, home: Path, workspace: Path) -> None:
        self.home, self.workspace = home, workspace
        self.cookies: set[str] = set()
        self.children: list[int] = []
        self.by_exec = ALWAYS_EXEC  # whether every command is the installed program
        self._run = Agh(self.children)
        self._started: list[subprocess.Popen[bytes]] = []

    def agh(
        self, *args: object, env: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run the program to its end in the workspace; `env` is added to the environment."""
        options = {"cwd": self.workspace, "by_exec": self.by_exec, **options}
        return self._run(*args, env=self._environ(env), **options)

    def start(
        self, *args: object, env: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.Popen[bytes]:
        """Start the program; the fixture ends it if the test does not."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": self.workspace}
        process = self._run.start(*args, env=self._environ(env), **{**pipes, **options})
        self._started.append(process)
        return process

    def _environ(self, added: Mapping[str, str] | None) -> dict[str, str]:
        return {**os.environ, "AGH_HOME": str(self.home), **(added or {})}

    def reads_the_log(self, process: subprocess.Popen[bytes], session: Session) -> None:
        """Wait until a command has read the session's log and waits for more."""
        log = str(session.directory / "events.db")
        wait_until(lambda: has_open(process.pid, log) and is_asleep(process.pid))

    def has_printed(self, process: subprocess.Popen[bytes], stream: str = "stdout") -> None:
        """Wait until a command has printed something, so that it is showing a turn or a request."""
        wait_until(lambda: select.select([getattr(process, stream)], [], [], 0)[0], what="output")

    def waits(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until a command waits for something to change."""
        wait_until(lambda: has_open(process.pid, "anon_inode:inotify") and is_asleep(process.pid))

    def new(
        self, *options: str, args: tuple[object, ...] = (), env: Mapping[str, str] | None = None
    ) -> Session:
        """Create a live session on the scripted agent with these options on its command line.

        Does what `agh session new` does, but without a process of its own unless it needs its own `env`.
        """
        argv = ["--agent", "echo", *map(str, args)]
        if options:
            argv += ["--command", shlex.join([*ECHO, *options])]
        if env is not None:
            return self.session(self.agh("session", "new", *argv, env=env).stdout.strip())
        # click keeps the first help option that a command was asked for, so it must be the program's.
        chosen_options = new_command.make_context("new", argv, **root.context_settings).params
        for option in ("output", "no_ask", "wait", "keeper"):
            del chosen_options[option]
        chosen_options["workspace"] = chosen_options["workspace"] or str(self.workspace)
        directory, hello = create(**check_options(**chosen_options))
        self.children.append(hello["pid"])
        return self.session(os.path.basename(directory))

    def configure(self, toml: str) -> None:
        """Write the settings for every keeper that starts from now on."""
        self.home.mkdir(mode=0o700, exist_ok=True)
        (self.home / "config.toml").write_text(toml)

    def trust(self, toml: str = "") -> None:
        """Let the workspace's `.agh/` count, beside these settings."""
        self.configure(f'trusted_workspaces = ["{self.workspace}"]\n{toml}')

    def session(self, session_id: str) -> Session:
        assert is_session_id(session_id)
        return Session(self, session_id)

    def sessions(self) -> list[Session]:
        try:
            names = os.listdir(self.home / "sessions")
        except FileNotFoundError:
            return []
        return [self.session(name) for name in sorted(names) if is_session_id(name)]

    def processes(self) -> list[Process]:
        """Return whatever lives and belongs to this home, except what the test itself has started."""
        ids = {session.id for session in self.sessions()}
        ours = {command.pid for command in self._started}
        return [
            process
            for process in mentioning([str(self.home), *ids, *self.cookies])
            if process.pid not in ours
            and (
                process.environ.get("AGH_HOME") == str(self.home)
                or process.environ.get("AGH_SESSION_ID") in ids
                or process.environ.get("AGH_LAUNCH") in self.cookies
                or any(str(self.home) in word for word in process.argv)
            )
        ]

    def end(self) -> None:
        """End what runs, and see that nothing is left."""
        for command in self._started:
            with command:
                command.kill()
        for session in self.sessions():
            with suppress(AghError, OSError, KeyError, TypeError, ValueError):
                self.cookies.add(session.meta()["launch"]["cookie"])
            if session.is_live():
                try:
                    client.call(home.Session.at(session.directory), "stop", limit=PATIENCE)
                except AghError:  # it cannot answer yet; its leash ends the rest
                    for process in self.processes():
                        if {"agh.keeper.main", str(session.directory)} <= {*process.argv}:
                            with suppress(ProcessLookupError):
                                kill(process.pid)
        with suppress(AssertionError):  # to ask a lock is cheap, to look at every process is not
            wait_until(lambda: not any(session.is_live() for session in self.sessions()))
        try:
            wait_until(lambda: not self.processes())
        except AssertionError:
            left = self.processes()
            for process in left:
                if look_at(process.pid) == process:
                    with suppress(ProcessLookupError):
                        kill(process.pid)
            if left:
                pytest.fail("left over: " + "; ".join(map(str, left)))
        finally:
            for pid in self.children:
                os.waitpid(pid, 0)


def _argv(pid: int) -> list[str]:
    process = look_at(pid)
    return process.argv if process else []


@contextmanager
def living(home: Path, workspace: Path) -> Iterator[Live]:
    """Yield a home; end its sessions, with every process of theirs, at the end of the block."""
    workspace.mkdir(exist_ok=True)
    live = Live(home, workspace)
    try:
        yield live
    finally:
        live.end()
