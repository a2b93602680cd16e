"""Tool calls that are open when their turn or their agent ends: each gets a result that claims nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.live import Event, Live, Session
from tests.support.wait import wait_until

OPENS = "/tool-open Build id=c1 kind=execute\n/say begun\n"


def _start(live: Live, then: str = "/sleep 60", *options: str, toml: str = "") -> tuple[Session, str]:
    """Start a turn that has opened a tool call; return the session and the turn."""
    if toml:
        live.configure(toml)
    session = live.new(*options)
    turn = session.send(OPENS + then)
    wait_until(lambda: session.events("tool_call", turn=turn), what="the tool call")
    if "/sleep" in then or "/hang" in then:
        session.wait_for_text("begun")
    return session, turn


def _check_closed(session: Session, turn: str) -> None:
    (result,) = session.events("tool_result", turn=turn)
    (end,) = session.events("done", "error", turn=turn)
    content = result.content
    assert (content["tool_call_id"], content["tool_error"], content["outcome"]) == ("c1", True, "unknown")
    assert content["title"] == "Build"
    assert content["tool_result"]["error"]
    assert result.sequence < end.sequence


def test_cancelled(live: Live) -> None:
    session, turn = _start(live)
    session.agh("cancel")
    wait_until(lambda: session.has_ended(turn))
    _check_closed(session, turn)
    assert session.tell("and now?") == "echo: and now?"
    messages = json.loads(session.agh("transcript", "-o", "json").stdout)["messages"]
    assert [message["outcome"] for message in messages if message["role"] == "tool_result"] == ["unknown"]


def test_stopped(live: Live) -> None:
    session, turn = _start(live)
    session.stop()
    _check_closed(session, turn)


def test_the_agent_died(live: Live) -> None:
    session, turn = _start(live, "/crash")
    wait_until(lambda: not session.is_live())
    _check_closed(session, turn)


def test_the_turn_failed(live: Live) -> None:
    session, turn = _start(live, "/error")
    wait_until(lambda: session.has_ended(turn))
    _check_closed(session, turn)


def test_paused(live: Live) -> None:
    session, turn = _start(live)
    session.agh("pause")
    _check_closed(session, turn)
    assert session.meta()["stop_reason"] == "paused"


def test_timed_out(live: Live) -> None:
    toml = "[session.supervision]\nprompt_deadline = 0.3\ntimeout_cancel_grace = 0.2\n"
    session, turn = _start(live, "/hang", toml=toml)
    wait_until(lambda: not session.is_live())
    _check_closed(session, turn)
    assert session.meta()["stop_reason"] == "timeout"


def test_the_session_stopped_after_a_turn_that_left_it_open(live: Live) -> None:
    """A turn that ended well may still hear of its tool calls; when its agent is gone it cannot."""
    session, turn = _start(live, "")
    wait_until(lambda: session.has_ended(turn))
    assert session.events("tool_result") == []
    session.stop()
    (result,) = session.events("tool_result", turn=turn)
    assert result.content["outcome"] == "unknown"
    assert session.events()[-1].type == "session_stopped"


def test_a_result_that_comes_late_counts(live: Live) -> None:
    done = {"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed"}
    session, turn = _start(live, "")
    wait_until(lambda: session.has_ended(turn))
    session.tell(f"/raw {json.dumps(_notification(session, done))}")
    session.stop()
    assert [event.content.get("outcome") for event in _results(session)] == [None]


def _notification(session: Session, update: dict[str, Any]) -> dict[str, Any]:
    params = {"sessionId": session.meta()["acp_session_id"], "update": update}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def _results(session: Session) -> list[Event]:
    return [event for event in session.events("tool_result") if event.content["tool_call_id"] == "c1"]


@pytest.mark.parametrize("resume", ["resume", "prompt"])
def test_a_crash_stays_visible_after_the_session_is_resumed(live: Live, resume: str) -> None:
    session, turn = _start(live)
    session.kill_keeper()
    session.agh("resume") if resume == "resume" else session.prompt("hello")
    _check_closed(session, turn)
    stopped, resumed = session.events("session_stopped", "session_resumed")
    assert (stopped.type, resumed.type) == ("session_stopped", "session_resumed")
    assert stopped.content["stop_reason"] == "agent_crashed"
    assert stopped.content["failure"]["kind"] == "process_exit"
    assert stopped.content["text"]
    session.stop()
    reasons = [event.content["stop_reason"] for event in session.events("session_stopped")]
    assert reasons == ["agent_crashed", "completed"]
