"""A council in the test's home, seen from outside: its commands, its log and its outcome."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from agh_council.state import State
from agh_council.store import read_state
from agh_council.views import outcome_view

from agh import home
from tests.support.live import Live, Session
from tests.support.wait import wait_until

ORACLE = (sys.executable, str(Path(__file__).with_name("oracle.py")))
MEMBERS = ("advocate", "skeptic", "chair")
BRIEF = "Should we do it?"


def perspective(id: str, **fields: object) -> str:
    fields = {"id": id, "agent": "echo", "role": f"Be the {id}.", **fields}
    if "command" in fields:
        del fields["agent"]
    return "[[perspectives]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in fields.items())


def profile(*parts: str, perspectives: tuple[str, ...] | None = None, head: str = "") -> str:
    """Return a profile of three embedded agents and four rounds, unless the parts say otherwise."""
    usual = (perspective("advocate"), perspective("skeptic"), perspective("chair", speaks_last=True))
    text = "\n".join([f'name = "review"\n{head}', *(perspectives or usual), *parts])
    if "[constraints]" not in text:
        text += "\n[constraints]\nrounds = { min = 2, max = 4 }\n"
    if "[delegation]" not in text:
        text += '\n[delegation]\ntension_pairs = [["advocate", "skeptic"]]\n'
    return text


class Council:
    """One council at a time; `run` opens it."""

    def __init__(self, live: Live) -> None:
        self.live, self.id = live, ""

    def agh(self, verb: str, *args: object, **options: Any) -> subprocess.CompletedProcess[str]:
        return self.live.agh("council", *verb.split(), self.id, *args, **options)

    def files(self, text: str, brief: str = BRIEF) -> tuple[Path, Path]:
        profile_path, brief_path = self.live.workspace / "profile.toml", self.live.workspace / "brief.md"
        profile_path.write_text(text)
        brief_path.write_text(brief)
        return profile_path, brief_path

    def open(self, text: str, brief: str = BRIEF, env: Mapping[str, str] | None = None) -> Council:
        """Start a council and do not wait for it."""
        profile_path, brief_path = self.files(text, brief)
        process = self.live.agh("council", "run", profile_path, "--brief", brief_path, "--detach", env=env)
        self.id = process.stdout.strip()
        return self

    def run(
        self, text: str, brief: str = BRIEF, code: int | None = 0, env: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Run a council until it stops; return the command's view of it."""
        profile_path, brief_path = self.files(text, brief)
        args = ("council", "run", profile_path, "--brief", brief_path, "-o", "json")
        process = self.live.agh(*args, code=code, env=env)
        view: dict[str, Any] = json.loads(process.stdout)["council"]
        self.id = view["session_id"]
        return view

    def resume(self, *args: object, code: int | None = 0, **options: Any) -> dict[str, Any]:
        process = self.agh("resume", *args, "-o", "json", code=code, **options)
        view: dict[str, Any] = json.loads(process.stdout)["council"]
        return view

    def error(self, verb: str, *args: object, code: int) -> dict[str, Any]:
        process = self.agh(verb, *args, "-o", "json", code=code)
        error: dict[str, Any] = json.loads(process.stderr.splitlines()[-1])["error"]
        return error

    def status(self) -> dict[str, Any]:
        view: dict[str, Any] = json.loads(self.agh("status", "-o", "json").stdout)["council"]
        return view

    @property
    def session(self) -> Session:
        return self.live.session(self.id)

    def state(self) -> State:
        return read_state(home.Session.at(self.session.directory))

    def outcome(self) -> dict[str, Any]:
        return outcome_view(self.state())

    def member(self, agent_id: str) -> Session:
        return self.live.session(self.state().members[agent_id].session_id)

    def prompts(self, agent_id: str) -> list[str]:
        """Return every prompt that a member was sent."""
        return [text for _, text in self.member(agent_id).inputs()]

    def wait_for(self, condition: Any, what: str = "") -> State:
        """Wait until the council's state meets the condition; return the state."""
        wait_until(lambda: condition(self.state()), what=what)
        return self.state()

    def wait_stopped(self) -> None:
        wait_until(lambda: not self.session.is_live(), what="the council's keeper ends")

    def checkpoint(self) -> dict[str, Any]:
        checkpoint: dict[str, Any] = json.loads((self.session.directory / "checkpoint.json").read_bytes())
        return checkpoint


def oracle(script: Path, *lines: str) -> str:
    """Return the command of an agent whose n-th answer is the n-th of these; the last one repeats."""
    script.write_text(json.dumps(lines))
    return shlex.join([*ORACLE, str(script)])


@pytest.fixture
def council(live: Live) -> Iterator[Council]:
    yield Council(live)
