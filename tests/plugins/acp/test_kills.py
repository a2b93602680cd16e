"""Kills of editor, `agh acp`, keeper and agent in the middle of turns: what was shown stays.

`make acp-kills ROUNDS=1000` runs many.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any

import pytest

from tests.plugins.acp import editor
from tests.plugins.acp.client import Client, text_of
from tests.support.live import Live, Session
from tests.support.processes import kill, look_at
from tests.support.rounds import Rounds
from tests.support.wait import wait_until

ROUNDS = int(os.environ.get("AGH_KILLS") or 8)
PART = 125  # rounds of one test, so that several run at the same time
TURNS = 20  # of a session; then it is checked that nothing is left, and the next one begins
VICTIMS = ("editor", "agh acp", "keeper", "agent")
COMMAND = (sys.executable, "-I", "-S", editor.__file__)


class Editor(Client):
    """A client in a process of its own, which can be killed."""

    program: int  # the pid of `agh acp`

    def _start(self, *options: str, env: dict[str, str] | None) -> subprocess.Popen[bytes]:
        command = [*COMMAND, sys.executable, "-P", "-m", "agh", "acp", "--agent", "echo"]
        environ = self.live._environ(env)
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        process = subprocess.Popen(command, env=environ, cwd=self.live.workspace, **pipes)
        self.live._started.append(process)
        assert process.stdout is not None
        self.program = int(process.stdout.readline())
        return process

    def end(self) -> None:
        """Kill it, and wait until its program has ended by itself."""
        self.kill()
        wait_until(lambda: look_at(self.program) is None, what="the end of agh acp")


@pytest.mark.soak
@pytest.mark.timeout(max(120, 6 * PART))
@pytest.mark.parametrize("part", range(-(-ROUNDS // PART)))
def test_after_any_kill_a_load_equals_the_log_and_no_prompt_is_doubled(
    live: Live, rounds: Rounds, part: int
) -> None:
    story: Story | None = None
    for number, chance in rounds(min(PART, ROUNDS - part * PART)):
        story = story or Story(live)
        story.run_turn(number, chance)
        if len(story.prompts) == TURNS:
            story.finish()
            story = None
    if story is not None:
        story.finish()


class Story:
    """A session, and the prompts that it got."""

    def __init__(self, live: Live) -> None:
        self.live, self.prompts = live, list[str]()
        client = Editor(live)
        client.initialize()
        self.session = client.new()
        client.end()

    def run_turn(self, number: int, chance: random.Random) -> None:
        """Open the session in an editor, prompt, and kill something at any time."""
        session, client = self.session, Editor(self.live)
        client.initialize()
        assert check_load(client, session) == self.prompts
        self.prompts.append(f"/stream 10 0.003\n/tool look n={number}\n/stream 10 0.003")
        client.start_prompt(session, self.prompts[-1])
        wait_until(lambda: len(session.inputs()) == len(self.prompts), what="the prompt in the queue")
        time.sleep(chance.random() / 10)
        kill_one(chance.choice(VICTIMS), client, session)
        wait_until(lambda: not session.is_live() or not _current_turn(session), what="rest")
        client.end()

    def finish(self) -> None:
        """Check the session once more: it goes on, it has everything once, and nothing is left of it."""
        client = Editor(self.live)
        client.initialize()
        assert client.prompt(self.session, "the end")["stopReason"] == "end_turn"
        assert check_load(client, self.session) == [*self.prompts, "the end"]
        client.end()
        self.session.check_log()
        self.session.stop()
        wait_until(lambda: not self.live.processes(), what="the end of all processes")


def _current_turn(session: Session) -> str | None:
    turn: str | None = (session.meta()["activity"] or {}).get("turn_id")  # a new keeper has no activity yet
    return turn


def kill_one(victim: str, client: Editor, session: Session) -> None:
    """Kill one of the processes; the keeper and its agent may have ended."""
    if victim == "editor":
        client.kill()
    elif victim == "agh acp":
        kill(client.program)
    elif session.is_live():
        with suppress(ProcessLookupError):
            kill(session.keeper if victim == "keeper" else session.agent)


def check_load(client: Client, session: Session) -> list[str]:
    """Load the session; check that it shows what is in the log, and return the prompts."""
    updates = client.load(session)
    messages = [text for text in text_of(updates, "agent_message_chunk") if not text.startswith("[agh] ")]
    assert "".join(messages) == session.text()
    calls = [update["toolCallId"] for update in updates if update["sessionUpdate"] == "tool_call"]
    assert calls == [event.content["tool_call_id"] for event in first_calls(session)]
    return text_of(updates, "user_message_chunk")


def first_calls(session: Session) -> list[Any]:
    """Return the first event of each tool call."""
    events = {event.content["tool_call_id"]: event for event in reversed(session.events("tool_call"))}
    return sorted(events.values(), key=lambda event: event.sequence)
