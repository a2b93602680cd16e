"""What ended a turn or a session is told apart: the agent, the protocol, a permission, the store."""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.live import Live, Share
from tests.support.permissions import raw_request
from tests.support.wait import wait_until

REQUEST = raw_request({"kind": "execute", "rawInput": {"command": "make"}})


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("/error -32603 the model said no", "prompt_failure"),
        ("/error -32602 Invalid params", "protocol_failure"),
        ("/error -32601 no such method", "protocol_failure"),
        (f"{REQUEST}\n/error -32603 gave up", "permission_failure"),
        (f"{REQUEST}\n/say anyway\n/sleep 0.3\n/error -32603 gave up", "prompt_failure"),
        ("/error -32000 log in", "provider_auth_failure"),
        ("/limit 1 You've hit your usage limit. Try again in 2 hours.", "usage_limit"),
        ("/crash", "process_exit"),
    ],
)
def test_a_turn_that_failed_says_what_kind_of_failure_it_was(
    shared_with: Share, text: str, kind: str
) -> None:
    session = shared_with("", "--permissions", "deny-all")
    session.prompt(text, code=None)
    wait_until(lambda: session.events("error"))
    assert session.events("error")[0].content["failure_kind"] == kind
    if text == "/crash":
        wait_until(lambda: not session.is_live())


AGENT = """
import json, sys
for line in sys.stdin:
    frame = json.loads(line)
    print(json.dumps({"jsonrpc": "2.0", "id": frame["id"], "result": {"protocolVersion": 9}}), flush=True)
"""


def test_an_agent_of_another_protocol(live: Live, tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    command = f"{sys.executable} {tmp_path / 'agent.py'}"
    error = live.agh("session", "new", "--agent", "echo", "--command", command, code=1)
    assert "protocol version 9" in error.stderr
    (session,) = live.sessions()
    assert session.meta()["failure"]["kind"] == "protocol_failure"


def test_a_log_that_cannot_be_written(live: Live) -> None:
    session = live.new()
    session.send("/say begun\n/sleep 0.5\n/stream 20 0.1")
    session.wait_for_text("begun")
    with closing(sqlite3.connect(session.directory / "events.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        wait_until(lambda: not session.is_live(), 30)
    assert session.status()["failure"]["kind"] == "store_failure"
    session.agh("repair")
    assert session.meta()["failure"]["kind"] == "store_failure"
    assert session.events("session_stopped")[-1].content["failure"]["kind"] == "store_failure"
    assert session.say("/say again") == "again"
    assert session.meta()["failure"] is None


def test_sigusr1_pauses_a_session(live: Live) -> None:
    session = live.new()
    session.send("/say begun\n/sleep 30")
    session.wait_for_text("begun")
    os.kill(session.keeper, signal.SIGUSR1)
    wait_until(lambda: not session.is_live())
    meta = session.meta()
    assert (meta["stop_reason"], meta["stop_detail"]) == ("paused", "SIGUSR1")
    assert (session.directory / "checkpoint.json").exists()
    assert session.status()["badge"] == "paused"
    assert session.say("/say back") == "back"


def test_a_silent_turn_that_ended_is_settled(live: Live) -> None:
    live.configure("[session.supervision]\ninactivity_warning_after = '0.3s'\ninactivity_timeout = '0.8s'")
    session = live.new()
    session.prompt("/sleep 30", code=3)
    assert session.markers().count("session_recovered") == session.markers().count("session_unhealthy") == 1
