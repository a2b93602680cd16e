"""Usage limits of real agents: the providers' own answers park the prompt, and the reset sends it once."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.real_agents.standin import Standin
from tests.real_agents.steps import LIMIT, kill_keeper, stop
from tests.support.clock import Clock
from tests.support.live import Live, Session
from tests.support.wait import wait_until

pytestmark = [
    pytest.mark.real_agents,
    pytest.mark.timeout(400),
    pytest.mark.parametrize("agent", ["claude", "codex", "opencode"]),
]
PIPES: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
WINDOW = 2 * 3600.0
# Claude reads the headers of a limit only for a subscription, which has such a token instead of a key.
TOKEN = {"CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-" + "x" * 40, "ANTHROPIC_API_KEY": ""}


class Account:
    """An agent whose provider has a limit, and a clock that can be set to its reset."""

    def __init__(self, live: Live, standin: Standin, agent: str, folder: Path) -> None:
        self.live, self.standin, self.agent = live, standin, agent
        self.clock = Clock(folder / "clock")
        live.configure("[session.limits]\non_usage_limit = 'park'\njitter = 0")

    def new(self) -> Session:
        """Start a session while there is no limit, and say something in it."""
        made = self.live.agh("session", "new", "--agent", self.agent, env=self.clock.env, timeout=LIMIT)
        session = self.live.session(made.stdout.strip())
        session.prompt("hello", timeout=LIMIT)
        return session

    def use_up(self) -> None:
        self.standin.limited_until = time.time() + WINDOW

    def reset(self) -> None:
        self.standin.limited_until = None
        self.clock.set(WINDOW + 3600)  # some round up to the hour

    def park(self, session: Session, words: str) -> None:
        result = session.prompt(words, code=10, timeout=LIMIT)
        assert "has reached a usage limit" in result.stderr
        assert session.status()["badge"] == "limited"
        left = _seconds(session.meta()["resumes_at"]) - time.time()
        assert WINDOW - 120 <= left <= WINDOW + 3600

    def run_crons(self) -> None:
        """Run five crons at once, in cron's environment, and see that each ends well."""
        bare = {name: os.environ[name] for name in ("HOME", "AGH_HOME")} | {"PATH": os.defpath}
        command = [str(Path(sys.executable).with_name("agh")), "session", "due", "--run", "-o", "json"]
        crons = [
            subprocess.Popen(command, env=bare | self.clock.env | self._keys(), cwd="/", **PIPES)
            for _ in range(5)
        ]
        outputs = [cron.communicate(timeout=LIMIT) for cron in crons]
        assert [cron.returncode for cron in crons] == [0] * 5, outputs

    def _keys(self) -> dict[str, str]:
        """Return what the agents need to find the stand-in; a user's own agents have it in their files."""
        return {
            name: value
            for name, value in os.environ.items()
            if name.startswith(
                ("ANTHROPIC", "CLAUDE", "CODEX", "DISABLE", "NO_", "OPENCODE", "STANDIN", "XDG")
            )
            or name.endswith("_PROXY")
        }

    def continues_once(self, session: Session, words: str) -> None:
        """See that the prompt was sent again, once, and that the agent answered it with what it knew."""
        wait_until(lambda: session.text().count("SEEN") == 2, LIMIT, what="the answer")
        self.live.agh("session", "wait", session.id, env=self.clock.env, timeout=LIMIT)
        sent = [event.content["text"] for event in session.events("user_message")]
        assert sent == ["hello", words, words]
        assert [status for status, _ in session.inputs()] == ["sent", "sent"]
        answered = [request for request in self.standin.conversation(words) if request.state == "answered"]
        assert len(answered) == 1, "one continuation"
        assert "hello" in answered[0].texts[0], "it remembers"
        session.check_log()


def _seconds(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()


@pytest.fixture
def account(
    live: Live,
    standin: Standin,
    agent: str,
    tmp_path: Path,
    use_newest: Callable[[str, Path], None],
    monkeypatch: pytest.MonkeyPatch,
) -> Account:
    use_newest(agent, tmp_path / "frames.jsonl")
    if agent == "claude":
        for name, value in TOKEN.items():
            monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name)
    return Account(live, standin, agent, tmp_path)


def test_parked_and_continued_at_the_reset(account: Account) -> None:
    session = account.new()
    account.use_up()
    account.park(session, "alpha")
    account.reset()
    session.hello()
    account.continues_once(session, "alpha")
    stop(session)


def test_two_sessions_of_one_account_continue_once_each(account: Account) -> None:
    first, second = account.new(), account.new()
    account.use_up()
    account.park(first, "alpha")
    account.park(second, "beta")
    account.reset()
    for session, words in ((first, "alpha"), (second, "beta")):
        session.hello()
        account.continues_once(session, words)
    first.agh("stop")
    stop(second)


def test_cancelled_by_the_user_while_it_is_parked(account: Account) -> None:
    session = account.new()
    account.use_up()
    account.park(session, "alpha")
    session.agh("cancel")
    assert session.status()["badge"] == "idle"
    account.reset()
    session.hello()
    assert "beta" in session.say("beta", timeout=LIMIT)
    assert [event.content["text"] for event in session.events("user_message")] == ["hello", "alpha", "beta"]
    stop(session)


def test_killed_with_everything_and_revived_by_one_of_five_crons(account: Account) -> None:
    session = account.new()
    account.use_up()
    account.park(session, "alpha")
    kill_keeper(session)
    assert session.status()["badge"] == "limited"
    account.reset()
    account.run_crons()
    account.continues_once(session, "alpha")
    stop(session)
