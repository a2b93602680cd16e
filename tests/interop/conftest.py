"""Sessions of agh on an agent that is built on the official SDK.

However a test ends, its sessions are stopped, no process is left, and every message that the SDK received was
valid; else the test fails.
"""

from __future__ import annotations

import json
import os
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from agh import home
from agh.keeper import client
from agh.store.reader import Reader
from tests.support.program import Agh
from tests.support.wait import PATIENCE, wait_until

HERE = Path(__file__).parent
GONE = 2.0  # seconds, for the end of processes
Event = dict[str, Any]


def step(word: str, **args: Any) -> str:
    """Return a line of a prompt for sdk_agent.py."""
    return f"{word} {json.dumps(args)}"


def carrying(cookie: str) -> set[int]:
    """Return the living processes that have the cookie in their environment."""
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if cookie.encode() in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                found.add(int(name))
        except OSError:
            pass
    return found


class Turn:
    """What `prompt -o jsonl` printed, and how it ended."""

    def __init__(self, code: int, printed: str, errors: str) -> None:
        self.code, self.errors = code, errors
        self.events: list[Event] = [json.loads(line) for line in printed.split("\n")[:-1]]

    def of(self, *types: str) -> list[Event]:
        return [event["content"] for event in self.events if event["type"] in types]

    @property
    def results(self) -> list[Any]:
        """Return what came of each step: its result, or `(code, message)` of its error."""
        text = "".join(content["text"] for content in self.of("agent_message"))
        documents = [json.loads(line) for line in text.split("\n") if line.startswith("{")]
        return [
            document["result"]
            if "result" in document
            else (document["error"]["code"], document["error"]["message"])
            for document in documents
        ]

    @property
    def stop_reason(self) -> str:
        (events,) = self.of("done")
        return str(events["stop_reason"])


class Prompt:
    """A prompt that runs in another process."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.printed = b""

    def wait_for(self, *texts: str, limit: float = PATIENCE) -> None:
        """Until it has printed one of these."""
        assert self.process.stdout is not None
        fd, end = self.process.stdout.fileno(), time.monotonic() + limit
        while not any(text.encode() in self.printed for text in texts):
            assert select.select([fd], [], [], max(0.0, end - time.monotonic()))[0], f"no {texts} came"
            data = os.read(fd, 1 << 16)
            assert data, ("it ended", self.printed)
            self.printed += data

    def end(self) -> Turn:
        if self.process.stdout and not self.process.stdout.closed:
            rest, errors = self.process.communicate(timeout=PATIENCE)
            self.turn = Turn(self.process.returncode, (self.printed + rest).decode(), errors.decode())
        return self.turn


class Session:
    """A session on the SDK's agent. `state` is the agent's own memory, `workspace` where it works."""

    def __init__(self, world: World, root: Path, options: tuple[str, ...], tap: bool) -> None:
        self.world, self.state, self.workspace = world, root / "state", root / "workspace"
        self.prompts: list[Prompt] = []
        self._turns = 0
        command = [sys.executable, str(HERE / "sdk_agent.py"), str(self.state)]
        if tap:
            command = [sys.executable, "-I", "-S", str(HERE / "tap.py"), str(self.state), *command]
        argv = ("session", "new", "--command", shlex.join(command), "--workspace", self.workspace, *options)
        self.id: str = json.loads(world.agh(*argv, "-o", "json").stdout)["session"]["id"]

    def prompt(self, *steps: str, code: int = 0, options: tuple[str, ...] = ()) -> Turn:
        text = "\n".join(steps)
        result = self.world.agh(
            "session", "prompt", self.id, text, "-o", "jsonl", *options, code=code, timeout=PATIENCE
        )
        return Turn(result.returncode, result.stdout, result.stderr)

    def start(self, *steps: str) -> Prompt:
        text, pipe = "\n".join(steps), subprocess.PIPE
        self._turns = self._ended_turns()
        self.prompts.append(
            Prompt(
                self.world.start("session", "prompt", self.id, text, "-o", "jsonl", stdout=pipe, stderr=pipe)
            )
        )
        return self.prompts[-1]

    def do(self, verb: str, *args: object, code: int = 0) -> Any:
        """Another command on the session, and what it printed as JSON."""
        result = self.world.agh("session", verb, self.id, *args, "-o", "json", code=code)
        return json.loads(result.stderr if code else result.stdout)

    def await_permission(self) -> Any:
        """Wait for the pending request; return it."""
        wait_until(self._waits)
        (row,) = self.do("permissions")["permissions"]
        return row

    def _waits(self) -> bool:
        return bool((self.meta["activity"] or {}).get("pending_permissions"))

    def _ended_turns(self) -> int:
        """Count the ends of turns in the log, which are there before a prompt returns."""
        with Reader(home.Session.at(self.home)) as reader:
            return int(reader.fetch("SELECT count(*) FROM events WHERE type IN ('done', 'error')")[0][0])

    def pause(self) -> list[Any]:
        """Wait until requests are pending or the turn is over; return the requests."""
        wait_until(lambda: self._ended_turns() > self._turns or self._waits())
        return list(self.do("permissions")["permissions"])

    def decide(self, verdict: str) -> None:
        """Answer the oldest request that waits, without the cost of a command."""
        request_id = self.do("permissions")["permissions"][0]["request_id"]
        client.call(home.Session.at(self.home), "decide", request_id=request_id, verdict=verdict)

    def events(self, *types: str) -> list[Event]:
        chosen = [word for type in types for word in ("--type", type)]
        result = self.world.agh("session", "events", self.id, *chosen, "-o", "jsonl")
        return [json.loads(line)["content"] for line in result.stdout.split("\n")[:-1]]

    @property
    def meta(self) -> Any:
        return json.loads((self.home / "meta.json").read_text())

    @property
    def home(self) -> Path:
        return self.world.home / "sessions" / self.id

    def seen(self, method: str) -> list[Any]:
        """Return the parameters of each call of a method that the agent received."""
        messages = [message for received, _ in launches(self.state) for message in received]
        return [message["params"] for message in messages if message.get("method") == method]

    def settings(self, **settings: Any) -> None:
        """Set what the agent offers, and how it fails, from its next start on."""
        (self.state / "settings.json").write_text(json.dumps(settings))

    def kill_keeper(self) -> None:
        os.kill(self.meta["keeper"]["pid"], signal.SIGKILL)


def launches(state: Path) -> list[tuple[list[Any], list[Any]]]:
    """Return the messages that each launch of an agent received, and those it sent."""
    every = []
    for launch in (state / "wire.jsonl").read_text().strip("\n").split("\n\n"):
        lines = [json.loads(line) for line in launch.split("\n") if line]
        came = [line["message"] for line in lines if line["came"]]
        every.append((came, [line["message"] for line in lines if not line["came"]]))
    return every


class World:
    """A home, the sessions in it, and a cookie that all their processes carry."""

    def __init__(self, root: Path) -> None:
        self.root, self.home = root, root / "agh"
        self.keepers: list[int] = []  # those that are our children
        self._agh = Agh(self.keepers)
        self.made: list[Path] = []
        self.sessions: list[Session] = []
        value = os.urandom(8).hex()
        self.cookie = f"INTEROP_TEST={value}"
        (root / "user").mkdir(exist_ok=True)
        own = {"HOME": str(root / "user"), "AGH_HOME": str(self.home), "INTEROP_TEST": value}
        inherited = {key: os.environ[key] for key in os.environ if not key.startswith(("AGH_", "XDG_"))}
        self._environ = {**inherited, **own}

    def agh(self, *args: object, **kwargs: Any) -> subprocess.CompletedProcess[str]:
        return self._agh(*args, env=self._environ, **kwargs)

    def start(self, *args: object, **kwargs: Any) -> subprocess.Popen[bytes]:
        return self._agh.start(*args, env=self._environ, **kwargs)

    def new(self, *options: str, tap: bool = False, **settings: Any) -> Session:
        """Return a session with a workspace and an agent of its own. `options` are those of `session new`."""
        place = self.root / f"session{len(self.made)}"
        self.made.append(place / "state")
        for name in ("workspace", "state"):
            (place / name).mkdir(parents=True)
        (place / "state" / "settings.json").write_text(json.dumps(settings))
        self.sessions.append(Session(self, place, options, tap))
        return self.sessions[-1]

    def alive(self) -> set[int]:
        return carrying(self.cookie)

    def none_left(self) -> None:
        wait_until(lambda: not self.alive(), GONE)

    def close(self) -> None:
        for session in self.sessions:
            if session.meta["state"] != "stopped":
                self.agh("session", "stop", session.id)
            for prompt in session.prompts:
                prompt.end()
        self.none_left()
        from tests.interop.wire import check_all  # which imports the SDK

        for state in self.made:
            for received, sent in launches(state):
                check_all(received, sent)


@contextmanager
def open_world(root: Path) -> Iterator[World]:
    world = World(root)
    try:
        yield world
        world.close()
    finally:
        for pid in world.alive():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in world.keepers:
            os.waitpid(pid, 0)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Yield a home of the test's own."""
    with open_world(tmp_path) as world:
        yield world


@pytest.fixture(scope="session")
def _permissive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with open_world(tmp_path_factory.mktemp("permissive")) as world:
        yield world.new("--permissions", "approve-all")


@pytest.fixture(scope="session")
def _asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with open_world(tmp_path_factory.mktemp("asking")) as world:
        yield world.new()


@pytest.fixture
def permissive(_permissive: Session) -> Iterator[Session]:
    """Yield a live session where all is allowed, shared by tests that leave it as they found it."""
    before = _permissive.world.alive()
    yield _permissive
    wait_until(lambda: _permissive.world.alive() <= before, GONE)


@pytest.fixture
def asking(_asking: Session) -> Iterator[Session]:
    """Yield a live session that asks for permissions, shared by tests that look at turns of their own."""
    before = _asking.world.alive()
    yield _asking
    for prompt in _asking.prompts:
        prompt.end()
    wait_until(lambda: _asking.world.alive() <= before, GONE)
