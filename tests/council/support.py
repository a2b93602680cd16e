"""A council of the test's home, seen from outside: its commands, its log, and what it came to."""

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

from tests.support.live import Live, Session, wait_until

ORACLE = (sys.executable, str(Path(__file__).with_name("oracle.py")))
SEATS = ("advocate", "skeptic", "chair")
BRIEF = "Should we do it?"


def seat(id: str, **fields: object) -> str:
    fields = {"id": id, "agent": "echo", "role": f"Be the {id}.", **fields}
    if "command" in fields:
        del fields["agent"]
    return "[[perspectives]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in fields.items())


def profile(*parts: str, seats: tuple[str, ...] | None = None, head: str = "") -> str:
    """A profile of three embedded agents and four rounds, unless the parts say otherwise."""
    usual = (seat("advocate"), seat("skeptic"), seat("chair", speaks_last=True))
    text = "\n".join([f'name = "review"\n{head}', *(seats or usual), *parts])
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
        given, question = self.live.workspace / "profile.toml", self.live.workspace / "brief.md"
        given.write_text(text)
        question.write_text(brief)
        return given, question

    def open(self, text: str, brief: str = BRIEF, env: Mapping[str, str] | None = None) -> Council:
        """Start a council and leave it to itself."""
        given, question = self.files(text, brief)
        done = self.live.agh("council", "run", given, "--brief", question, "--detach", env=env)
        self.id = done.stdout.strip()
        return self

    def run(
        self, text: str, brief: str = BRIEF, code: int | None = 0, env: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Run a council until it stops; the command's view of it."""
        given, question = self.files(text, brief)
        args = ("council", "run", given, "--brief", question, "-o", "json")
        done = self.live.agh(*args, code=code, env=env)
        view: dict[str, Any] = json.loads(done.stdout)["council"]
        self.id = view["session_id"]
        return view

    def resume(self, *args: object, code: int | None = 0, **options: Any) -> dict[str, Any]:
        done = self.agh("resume", *args, "-o", "json", code=code, **options)
        view: dict[str, Any] = json.loads(done.stdout)["council"]
        return view

    def error(self, verb: str, *args: object, code: int) -> dict[str, Any]:
        done = self.agh(verb, *args, "-o", "json", code=code)
        found: dict[str, Any] = json.loads(done.stderr.splitlines()[-1])["error"]
        return found

    def status(self) -> dict[str, Any]:
        view: dict[str, Any] = json.loads(self.agh("status", "-o", "json").stdout)["council"]
        return view

    @property
    def session(self) -> Session:
        return self.live.session(self.id)

    def state(self) -> State:
        return read_state(str(self.session.directory))

    def outcome(self) -> dict[str, Any]:
        return outcome_view(self.state())

    def member(self, agent_id: str) -> Session:
        return self.live.session(self.state().members[agent_id].session_id)

    def prompts(self, agent_id: str) -> list[str]:
        """Everything that a member was ever sent."""
        return [text for _, text in self.member(agent_id).inputs()]

    def wait_for(self, condition: Any, what: str = "") -> State:
        """Wait until the state of the council is so."""
        wait_until(lambda: condition(self.state()), what=what)
        return self.state()

    def wait_stopped(self) -> None:
        wait_until(lambda: not self.session.is_live(), what="the council's keeper ends")

    def checkpoint(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.session.directory / "checkpoint.json").read_bytes())
        return found


def oracle(script: Path, *lines: str) -> str:
    """A command for an agent whose n-th answer is the n-th of these (the last one for ever)."""
    script.write_text(json.dumps(lines))
    return shlex.join([*ORACLE, str(script)])


@pytest.fixture
def council(live: Live) -> Iterator[Council]:
    yield Council(live)
