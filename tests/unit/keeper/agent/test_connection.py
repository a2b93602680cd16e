"""The connection to an agent: what goes ahead of the first message, and between messages."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest

from agh.adapters.agents import AgentRecord
from agh.adapters.launch import Launch
from agh.core.acp.frames import Frame, Response
from agh.errors import TimedOut
from agh.keeper.agent.connection import Agent
from agh.keeper.agent.launch import client_info
from agh.keeper.loop import Loop
from agh.sessions.agent.probe import refuse_requests
from tests.support.live import ECHO


def test_a_heartbeat_means_nothing_to_the_agent(tmp_path: Path) -> None:
    launch = Launch(AgentRecord("echo", ECHO), list(ECHO), dict(os.environ), str(tmp_path), heartbeat=0.01)
    loop, ended = Loop(), []
    agent = Agent(loop, launch, refuse_requests)
    launch.finish = lambda: ended.append(True)
    try:
        assert agent.call("initialize", client_info(), 20)["protocolVersion"] == 1
        until = time.monotonic() + 0.3
        loop.run_until(lambda: time.monotonic() > until, 1)
        assert agent.call("session/new", {"cwd": str(tmp_path), "mcpServers": []}, 20)["sessionId"]
    finally:
        agent.process.end(eof=2, term=1)
    assert agent.process.exit == {"exit": 0, "signal": None}
    assert ended == [True], "what may go on behind the wire is ended once"


def test_what_goes_ahead_of_the_first_message(tmp_path: Path) -> None:
    argv = ["/bin/sh", "-c", 'read first; read second; echo "$first/$second" >&2']
    launch = Launch(
        AgentRecord("sh", tuple(argv)), argv, dict(os.environ), str(tmp_path), preamble=b"ahead\n"
    )
    agent = Agent(Loop(), launch)
    agent.notify("hello", {})
    agent.process.end(eof=2, term=1)
    assert agent.stderr_text().startswith('ahead/{"jsonrpc"')


SLOW_AGENT = """
import json, sys
for line in sys.stdin:
    frame = json.loads(line)
    print(line.strip(), file=sys.stderr, flush=True)
    if frame["method"] == "$/cancel_request":
        error = {"code": -32800, "message": "Request cancelled"}
        print(json.dumps({"jsonrpc": "2.0", "id": frame["params"]["requestId"], "error": error}), flush=True)
    elif frame["method"] == "quick":
        print(json.dumps({"jsonrpc": "2.0", "id": frame["id"], "result": {}}), flush=True)
"""


def test_a_request_that_takes_too_long_is_cancelled(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", SLOW_AGENT]
    launch = Launch(AgentRecord("slow", tuple(argv)), argv, dict(os.environ), str(tmp_path))
    delivered: list[bool] = []

    def take(agent: Agent, frames: list[Frame]) -> None:
        delivered.extend(agent.deliver(frame) for frame in frames if isinstance(frame, Response))

    agent = Agent(Loop(), launch, take)
    try:
        with pytest.raises(TimedOut):
            agent.call("slow", {}, 0.2)
        assert agent.call("quick", {}, 20) == {}
    finally:
        agent.process.end(eof=2, term=1)
    assert delivered == [True, True], "the late answer is expected"
    sent = [json.loads(line) for line in agent.stderr_text().splitlines()]
    assert [frame["method"] for frame in sent] == ["slow", "$/cancel_request", "quick"]
    assert sent[1]["params"] == {"requestId": sent[0]["id"]}
