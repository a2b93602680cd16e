"""Live sessions under test: the installed program, real keepers, the scripted agent, real processes.

The fixture `live` ends every session of the test's home and then asserts that nothing is left: no process
that knows the home, one of its sessions, or a launch cookie of one. Only processes found that way are ever
signalled. Every wait has a limit.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agh import home
from agh.cli.main import root
from agh.cli.session.new import checked, new_command
from agh.errors import AghError
from agh.home import SESSION_ID
from agh.keeper import client, protocol
from agh.sessions.new import create
from agh.sessions.start import ensure_live
from agh.store import lock
from agh.store.reader import Reader
from tests.support.program import Agh
from tests.support.wait import PATIENCE, wait_until

GONE_WITHIN = 2.0  # seconds from a keeper's death to the end of everything below it
ECHO = (sys.executable, "-P", "-m", "agh_echo")


class Event(NamedTuple):
    sequence: int
    turn_id: str
    type: str
    content: dict[str, Any]


class Process(NamedTuple):
    pid: int
    argv: list[str]
    environ: dict[str, str]

    def __str__(self) -> str:
        return f"{self.pid} {' '.join(self.argv)}"


def look_at(pid: int) -> Process | None:
    """A living process of ours; None for one that is gone, a zombie, or somebody else's."""
    try:
        argv = _words(f"/proc/{pid}/cmdline")
        environ = _words(f"/proc/{pid}/environ") if argv else []
    except OSError:
        return None
    return Process(pid, argv, dict(one.split("=", 1) for one in environ if "=" in one)) if argv else None


def _words(path: str) -> list[str]:
    with open(path, "rb") as file:
        return file.read().decode(errors="replace").split("\0")[:-1]


def processes() -> list[Process]:
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [one for pid in pids if pid != os.getpid() and (one := look_at(pid))]


def carrying(cookie: str) -> list[Process]:
    """Everything that was started below the leash of this launch and still lives."""
    return [one for one in processes() if one.environ.get("AGH_LAUNCH") == cookie]


def is_alive(pid: int) -> bool:
    return look_at(pid) is not None


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


def modes(top: Path) -> dict[Path, int]:
    """Return the mode of a directory and of all below it, without what vanishes meanwhile."""
    entries = {}
    for path in [top, *top.rglob("*")]:
        with suppress(FileNotFoundError):
            entries[path] = path.lstat().st_mode
    return entries


def children_of(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def memory_of(pid: int, field: str = "VmRSS") -> float:
    """Megabytes: VmRSS is now, VmHWM the most there ever was."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(field + ":"))) / 1024


def cpu_ticks_of(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


class Session:
    """A session of the test's home, seen from outside."""

    def __init__(self, live: Live, session_id: str) -> None:
        self.live, self.id = live, session_id
        self.directory = live.home / "sessions" / session_id

    # What the program says and does.

    def agh(self, verb: str, *args: object, **options: Any) -> subprocess.CompletedProcess[str]:
        return self.live.agh("session", verb, self.id, *args, **options)

    def prompt(self, text: str, *args: object, **options: Any) -> subprocess.CompletedProcess[str]:
        return self.agh("prompt", text, *args, **options)

    def say(self, text: str, *args: object, **options: Any) -> str:
        """Only the agent's words."""
        return self.prompt(text, *args, "-o", "text", **options).stdout.rstrip("\n")

    def turn(self, text: str, *args: object, **options: Any) -> dict[str, Any]:
        """The turn as `-o json` tells it."""
        found: dict[str, Any] = json.loads(self.prompt(text, *args, "-o", "json", **options).stdout)["turn"]
        return found

    def start_prompt(self, text: str, *args: object, **options: Any) -> subprocess.Popen[bytes]:
        return self.live.start("session", "prompt", self.id, text, *args, **options)

    # The same without a process of its own, for what a test needs and does not look at.

    def call(self, verb: str, **args: Any) -> dict[str, Any]:
        return client.call(home.Session.at(self.directory), verb, **args)

    def revive(self) -> int:
        """Make the session live if it is not; the pid of its keeper, which is then a child of ours."""
        hello = ensure_live(home.Session.at(self.directory))
        if hello["started"]:
            self.live.children.append(hello["pid"])
        return int(hello["pid"])

    def begin(self, text: str) -> str:
        """Send a prompt to the live session; the id of its turn."""
        return str(self.call("prompt", prompt=[{"type": "text", "text": text}])["turn_id"])

    def tell(self, text: str) -> str:
        """Send a prompt to the live session; what the agent said, once the turn has ended."""
        turn_id = self.begin(text)
        wait_until(lambda: self.has_ended(turn_id), what=text)
        return self.text(turn_id)

    def has_ended(self, turn_id: str) -> bool:
        return bool(self.events("done", "error", turn=turn_id))

    def settle(self, limit: float = PATIENCE) -> None:
        """Wait until no prompt is running or queued."""
        wait_until(lambda: not {status for status, _ in self.inputs()} & {"queued", "dispatching"}, limit)

    def said(self, text: str) -> None:
        """Wait until the agent has said this."""
        wait_until(lambda: text in self.text(), what=text)

    def stop(self) -> None:
        """Stop the live session, and wait for its keeper to be gone."""
        keeper = self.keeper
        self.call("stop")
        wait_until(lambda: not is_alive(keeper))

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.agh("status", "-o", "json").stdout)["session"]
        return found

    def error(self, verb: str, *args: object, code: int, **options: Any) -> dict[str, Any]:
        """The error object of a command that must fail with this exit number."""
        done = self.agh(verb, *args, "-o", "json", code=code, **options)
        found: dict[str, Any] = json.loads(done.stderr.splitlines()[-1])["error"]
        return found

    # What is on disk.

    def meta(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.directory / "meta.json").read_bytes())
        return found

    def fetch(self, sql: str, *values: object) -> list[Any]:
        with Reader(home.Session.at(self.directory)) as reader:
            return reader.fetch(sql, values)

    def events(self, *types: str, turn: str | None = None) -> list[Event]:
        terms = [f"type IN ({','.join('?' * len(types))})" if types else "1", "turn_id = ?" if turn else "1"]
        columns = "sequence, turn_id, type, content"
        sql = f"SELECT {columns} FROM events WHERE {' AND '.join(terms)} ORDER BY sequence"
        rows = self.fetch(sql, *types, *([turn] if turn else []))
        return [Event(number, turn_id, type, json.loads(text)) for number, turn_id, type, text in rows]

    def count(self, *types: str) -> int:
        marks = ",".join("?" * len(types))
        return int(self.fetch(f"SELECT count(*) FROM events WHERE type IN ({marks})", *types)[0][0])

    def text(self, turn: str | None = None) -> str:
        """All the agent's words."""
        return "".join(one.content["text"] for one in self.events("agent_message", turn=turn))

    def inputs(self) -> list[tuple[str, str]]:
        """Each input's status and text, oldest first."""
        rows = self.fetch("SELECT status, prompt FROM inputs ORDER BY id")
        return [(status, json.loads(prompt)[0]["text"]) for status, prompt in rows]

    def markers(self) -> list[str]:
        return [one.content["kind"] for one in self.events("transcript_marker.created")]

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
        (found,) = [pid for pid in children_of(self.keeper) if "leash.py" in " ".join(_argv(pid))]
        return found

    @property
    def cookie(self) -> str:
        cookie = self.meta()["launch"]["cookie"]
        self.live.cookies.add(cookie)
        return str(cookie)

    def kill_keeper(self) -> str:
        """SIGKILL; returns the launch cookie that everything below carried."""
        cookie = self.cookie
        kill(self.keeper)
        wait_until(lambda: not self.is_live(), what="the kernel frees the lock")
        return cookie

    def connect(self) -> socket.socket:
        """A raw connection to the control socket."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(PATIENCE)
        with protocol.short_path(str(self.directory)) as address:
            connection.connect(address)
        return connection

    def check_log(self) -> None:
        """What must hold of every log at every time."""
        events = self.events()
        assert [one.sequence for one in events] == list(range(1, len(events) + 1))
        for kind in ("user_message", "done", "error"):
            turns = [one.turn_id for one in events if one.type == kind]
            assert len(turns) == len(set(turns)), f"two {kind} events in one turn"
        ends = [one.turn_id for one in events if one.type in ("done", "error")]
        assert len(ends) == len(set(ends)), "a turn ended twice"


class Live:
    """A home with live sessions in it."""

    def __init__(self, home: Path, workspace: Path) -> None:
        self.home, self.workspace = home, workspace
        self.cookies: set[str] = set()
        self.children: list[int] = []
        self._run = Agh()
        self._started: list[subprocess.Popen[bytes]] = []

    def agh(
        self, *args: object, env: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """The program, run to its end in the workspace; `env` is added to the environment."""
        return self._run(*args, env=self._environ(env), **{"cwd": self.workspace, **options})

    def start(
        self, *args: object, env: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.Popen[bytes]:
        """The program, left running; the fixture ends it if the test does not."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": self.workspace}
        started = self._run.start(*args, env=self._environ(env), **{**pipes, **options})
        self._started.append(started)
        return started

    def _environ(self, added: Mapping[str, str] | None) -> dict[str, str]:
        return {**os.environ, "AGH_HOME": str(self.home), **(added or {})}

    def reads_the_log(self, process: subprocess.Popen[bytes], session: Session) -> None:
        """Wait until a command has opened the session's log."""
        wait_until(lambda: has_open(process.pid, str(session.directory / "events.db")))

    def waits(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until a command waits for something to change."""
        wait_until(lambda: has_open(process.pid, "anon_inode:inotify"))

    def new(
        self, *options: str, args: tuple[object, ...] = (), env: Mapping[str, str] | None = None
    ) -> Session:
        """A live session on the scripted agent with these options on its command line.

        Made as `agh session new` makes it, but without a process of its own, unless it needs its own `env`.
        """
        argv = ["--agent", "echo", *map(str, args)]
        if options:
            argv += ["--command", shlex.join([*ECHO, *options])]
        if env is not None:
            return self.session(self.agh("session", "new", *argv, env=env).stdout.strip())
        # click keeps the first help option that a command was asked for, so it must be the program's.
        asked = new_command.make_context("new", argv, **root.context_settings).params
        del asked["output"]
        directory, hello = create(
            **checked(**{**asked, "workspace": asked["workspace"] or str(self.workspace)})
        )
        self.children.append(hello["pid"])
        return self.session(os.path.basename(directory))

    def configure(self, toml: str) -> None:
        """Settings for every keeper that starts from now on."""
        self.home.mkdir(mode=0o700, exist_ok=True)
        (self.home / "config.toml").write_text(toml)

    def trust(self, toml: str = "") -> None:
        """Let the workspace's `.agh/` count, beside these settings."""
        self.configure(f'trusted_workspaces = ["{self.workspace}"]\n{toml}')

    def session(self, session_id: str) -> Session:
        assert SESSION_ID.fullmatch(session_id)
        return Session(self, session_id)

    def sessions(self) -> list[Session]:
        try:
            names = os.listdir(self.home / "sessions")
        except FileNotFoundError:
            return []
        return [self.session(name) for name in sorted(names) if SESSION_ID.fullmatch(name)]

    def processes(self) -> list[Process]:
        """Whatever lives and belongs to this home, but for what the test itself has started."""
        ids = {session.id for session in self.sessions()}
        ours = {process.pid for process in self._started}
        return [
            one
            for one in processes()
            if one.pid not in ours
            and (
                one.environ.get("AGH_HOME") == str(self.home)
                or one.environ.get("AGH_SESSION_ID") in ids
                or one.environ.get("AGH_LAUNCH") in self.cookies
                or any(str(self.home) in word for word in one.argv)
            )
        ]

    def end(self) -> None:
        """End what runs, and see that nothing is left."""
        for process in self._started:
            with process:
                process.kill()
        for session in self.sessions():
            with suppress(AghError, OSError, KeyError, TypeError, ValueError):
                self.cookies.add(session.meta()["launch"]["cookie"])
            if session.is_live():
                try:
                    client.call(home.Session.at(session.directory), "stop", limit=PATIENCE)
                except AghError:  # it has not come so far as to answer: its leash will end the rest
                    for one in self.processes():
                        if "agh.keeper.main" in one.argv and str(session.directory) in one.argv:
                            with suppress(ProcessLookupError):
                                kill(one.pid)
        try:
            wait_until(lambda: not self.processes(), 5)
        except AssertionError:
            left = self.processes()
            for one in left:
                if look_at(one.pid) == one:
                    with suppress(ProcessLookupError):
                        kill(one.pid)
            if left:
                pytest.fail("left over: " + "; ".join(map(str, left)))
        finally:
            for pid in self.children:
                os.waitpid(pid, 0)


def _argv(pid: int) -> list[str]:
    found = look_at(pid)
    return found.argv if found else []


@contextmanager
def living(home: Path, workspace: Path) -> Iterator[Live]:
    """A home whose sessions are all ended, with every process of theirs, at the end of the block."""
    workspace.mkdir(exist_ok=True)
    made = Live(home, workspace)
    try:
        yield made
    finally:
        made.end()
