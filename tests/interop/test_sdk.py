"""A conversation with an agent of an independent implementation: prompts, the way back, cancel, options."""

from __future__ import annotations

import signal

import pytest

from tests.interop.conftest import Session, World, launches, step
from tests.support.wait import PATIENCE


def test_prompt(asking: Session) -> None:
    turn = asking.prompt(
        step("think", text="let me see"),
        step("plan", entries=["look", "change"]),
        step("edit", path="/a.txt", old="one\n", new="two\n"),
        step("fail", text="no such thing"),
        step("context", used=1200, size=200_000, cost=0.25),
        step("title", title="A small change"),
        step("echo", text="schön \U0001f600"),
        step("usage", total_tokens=30, input_tokens=20, output_tokens=10),
    )
    assert turn.results == ["schön \U0001f600"]
    assert [event["type"] for event in turn.events] == [
        "user_message",
        "thought",
        "plan",
        *("tool_call", "tool_call", "tool_result"),
        *("tool_call", "tool_result"),
        "usage",
        "system",
        "agent_message",
        "done",
    ]
    (thought,) = turn.of("thought")
    assert thought["text"] == "let me see"
    (plan,) = turn.of("plan")
    assert [entry["content"] for entry in plan["raw"]["entries"]] == ["look", "change"]
    edit, failed = turn.of("tool_result")
    assert edit["tool_call_id"] == turn.of("tool_call")[0]["tool_call_id"]
    assert edit["tool_result"]["file_path"] == "/a.txt"
    assert edit["tool_result"]["stdout"] == "1 change"
    (patch,) = edit["tool_result"]["structured_patch"]
    assert (patch["oldText"], patch["newText"]) == ("one\n", "two\n")
    assert (edit["tool_error"], failed["tool_error"]) == (False, True)
    assert failed["tool_result"]["error"] == "no such thing"
    (context,) = turn.of("usage")
    assert context["usage"].pop("timestamp")
    assert context["usage"] == {
        "context_used": 1200,
        "context_size": 200_000,
        "cost_amount": 0.25,
        "cost_currency": "USD",
    }
    (events,) = turn.of("done")
    assert events["stop_reason"] == "end_turn"
    assert events["usage"]["total_tokens"] == 30
    assert "thought_tokens" not in events["usage"], "as the agent did not say"
    assert {event["content"]["session_id"] for event in turn.events} == {asking.meta["acp_session_id"]}
    assert asking.meta["title"] == "A small change"
    (opened,) = asking.seen("session/new")
    assert opened["cwd"] == str(asking.workspace)
    (asked,) = asking.seen("initialize")
    assert asked["clientCapabilities"]["fs"] == {"readTextFile": True, "writeTextFile": True}
    assert asked["clientCapabilities"]["terminal"] is True

    for reason in ("max_tokens", "max_turn_requests", "refusal"):  # only a completed turn is a success
        turn = asking.prompt(step("stop", reason=reason), code=1)
        assert turn.stop_reason == reason
        assert reason in turn.errors


# The way back


def test_load_after_the_keeper_was_killed(world: World) -> None:
    session = world.new(without=["resume"])
    session.prompt(step("echo", text="first"))
    running = session.start(step("slow"))
    running.wait_for("working")
    session.kill_keeper()
    assert running.end().code == 7
    world.none_left()
    status = session.do("status")["session"]
    assert (status["state"], status["stop_reason"]) == ("stopped", "agent_crashed")
    assert (status["needs_resume"], status["resume_reason"]) == (True, "agent_not_running")
    events = session.events("user_message", "agent_message")

    resumed = session.do("resume")
    assert resumed["restore"]["strategy"] == "native_load"
    assert resumed["restore"]["context_lost"] is False
    assert session.events("user_message", "agent_message") == events  # the replay is not stored again
    (event,) = session.events("session_resumed")
    token = session.meta["acp_session_id"]
    assert event["strategy"] == "native_load"
    assert event["acp_session_id"] == event["previous_acp_session_id"] == token
    (ended,) = session.events("error")
    assert ended["turn_id"] == events[-1]["turn_id"]  # the turn that was open is closed

    recalled = session.prompt(step("recall"))
    assert recalled.results == [[step("echo", text="first"), step("slow")]]
    (opened,) = session.seen("session/new")
    assert session.seen("session/load") == [{**opened, "sessionId": token}]
    assert session.seen("session/resume") == []


@pytest.mark.slow
def test_resume(world: World) -> None:
    """A prompt is enough: what is not live is resumed first, with the options it had."""
    session = world.new("--mode", "code", "--model", "large")
    session.prompt(step("echo", text="first"))
    token = session.meta["acp_session_id"]
    mode = {"sessionId": token, "modeId": "code"}
    model = {"sessionId": token, "configId": "model", "value": "large"}
    assert session.seen("session/set_mode") == [mode]
    assert session.seen("session/set_config_option") == [model]
    assert "large" in session.do("set", "model=huge", code=2)["error"]["message"]
    session.do("set", "model=small")
    assert session.do("stop")["session"]["stop_reason"] == "completed"
    assert session.seen("session/close") == [{"sessionId": token}]

    turn = session.prompt(step("recall"))
    assert turn.results == [[step("echo", text="first")]]
    assert "native_resume" in turn.errors
    assert session.meta["restore"]["strategy"] == "native_resume"
    (opened,) = session.seen("session/new")
    assert session.seen("session/resume") == [{**opened, "sessionId": token}]
    assert session.seen("session/load") == []
    assert len(session.events("session_resumed")) == 1
    assert session.seen("session/set_mode") == [mode, mode]
    assert session.seen("session/set_config_option") == [model] + 2 * [{**model, "value": "small"}]

    session.do("stop")
    session.settings(terse=True)  # to repeat modes and options is optional, and a null answer is a success
    session.do("resume")
    assert session.meta["mode"] == "code"


def test_an_agent_without_memory_is_told_the_history_once(world: World) -> None:
    session = world.new(without=["resume", "load"])
    session.prompt(step("echo", text="first"))
    session.do("stop")
    first = session.meta["acp_session_id"]

    turn = session.prompt(step("echo", text="second"))
    assert turn.results == ["second"]
    assert "lost its memory" in turn.errors
    assert session.meta["restore"]["strategy"] == "inject_history"
    assert session.meta["acp_session_ids"] == [first, session.meta["acp_session_id"]]
    (marker,) = session.events("transcript_marker.created")
    assert marker["kind"] == "context_reset"
    session.prompt(step("echo", text="third"))
    texts = [prompt["prompt"][0]["text"] for prompt in session.seen("session/prompt")]
    assert texts[1].startswith("RESUME CONTEXT FOR CONTINUING TASK")
    assert "[USER]: " + step("echo", text="first") in texts[1]
    assert texts[2] == step("echo", text="third")


def test_a_first_turn_that_was_cut_off_is_context_too(world: World) -> None:
    session = world.new(without=["resume", "load"])
    running = session.start(step("echo", text="remember 42"), step("slow"))
    running.wait_for("working")
    session.kill_keeper()
    running.end()
    resumed = session.do("resume")
    assert resumed["restore"]["strategy"] == "inject_history"
    assert resumed["restore"]["context_lost"] is True
    session.prompt(step("echo", text="go on"))
    assert "remember 42" in session.seen("session/prompt")[-1]["prompt"][0]["text"]


@pytest.mark.slow
def test_only_a_conversation_that_is_gone_is_given_up(world: World) -> None:
    session = world.new()
    session.prompt(step("echo", text="first"))
    session.do("stop")
    token = session.meta["acp_session_id"]
    file = session.state / f"{token}.json"
    for other in ("sdk-0", "sdk-zz"):
        (session.state / f"{other}.json").write_bytes(file.read_bytes())

    session.settings(vague=True)  # an unclear error, and the agent lists the session
    error = session.do("resume", code=1)["error"]
    assert error["code"] == "restore_failed"
    assert error["hint"].endswith("--fresh")
    assert session.meta["acp_session_id"] == token
    assert session.meta["state"] == "stopped"
    assert len(session.seen("session/list")) == 2  # until the page that has it

    file.unlink()  # the same error, and no page has it
    assert session.do("resume", "--require-context", code=1)["error"]["code"] == "context_lost"
    assert len(session.seen("session/list")) == 4
    assert len(session.seen("session/new")) == 1  # nothing was started

    session.settings()  # "resource not found", plainly
    assert session.do("resume")["restore"]["strategy"] == "inject_history"
    assert session.meta["acp_session_ids"] == [token, session.meta["acp_session_id"]]


# Cancel


def test_cancel(asking: Session) -> None:
    cancels, markers = (len(rows) for rows in (asking.seen("session/cancel"), marker_kinds(asking)))
    running = asking.start(step("slow"))
    running.wait_for("working")
    turn_id = asking.do("cancel")["turn"]["turn_id"]
    turn = running.end()
    assert turn.code == 1
    assert turn.stop_reason == "cancelled"
    assert "cancelled" in turn.errors
    assert {event["turn_id"] for event in turn.events if event["type"] == "done"} == {turn_id}
    token = asking.meta["acp_session_id"]
    assert asking.seen("session/cancel")[cancels:] == [{"sessionId": token}]

    pressed = asking.start(step("slow"))
    pressed.wait_for("working")
    pressed.process.send_signal(signal.SIGINT)
    turn = pressed.end()
    assert turn.code == 130
    assert turn.stop_reason == "cancelled"

    waiting = asking.start(step("ask", kind="edit"), step("echo", text="went on"))
    asking.do("wait", "--until", "permission", "--timeout", f"{PATIENCE:g}s")
    asking.do("cancel")
    turn = waiting.end()
    assert turn.results == ["cancelled"]
    assert turn.stop_reason == "cancelled"
    *_, row = asking.do("permissions", "--all")["permissions"]
    assert (row["status"], row["decision"]) == ("decided", "cancelled")
    ((received, _),) = launches(asking.state)  # the agent hears of the cancel first, or it would go on
    assert [message.get("method", "answer") for message in received][-2:] == ["session/cancel", "answer"]

    crossing = asking.start(step("slow", then_ask=True))  # asks when it is already cancelled
    crossing.wait_for("working")
    asking.do("cancel")
    turn = crossing.end()
    assert turn.results == ["cancelled"]
    assert turn.stop_reason == "cancelled"

    assert asking.prompt(step("echo", text="still here")).results == ["still here"]
    assert asking.do("cancel", code=6)["error"]["code"] == "no_turn"
    assert marker_kinds(asking)[markers:] == ["prompt_cancel"] * 4


def marker_kinds(session: Session) -> list[str]:
    return [marker["kind"] for marker in session.events("transcript_marker.created")]


def test_stop_in_the_middle_of_a_turn(world: World) -> None:
    session = world.new("--permissions", "approve-all")
    running = session.start(step("create", command="sleep", args=["1000"]), step("slow"))
    running.wait_for("working")
    assert session.do("stop")["session"]["stop_reason"] == "user_canceled"
    turn = running.end()
    assert (turn.code, turn.stop_reason) == (1, "cancelled")
    world.none_left()
    token = session.meta["acp_session_id"]
    assert session.seen("session/cancel") == session.seen("session/close") == [{"sessionId": token}]
    (stopped,) = session.events("session_stopped")
    assert stopped["stop_reason"] == "user_canceled"


# The handshake, and what goes wrong after it


def test_an_agent_that_needs_a_login(world: World) -> None:
    with pytest.raises(AssertionError, match=r"^\(9, .*agent_needs_login"):
        world.new(login=True)


def test_an_agent_of_another_protocol_version_is_refused(world: World) -> None:
    with pytest.raises(AssertionError, match=r"^\(1, .*version"):
        world.new(protocol=2)


CALL = {"sessionId": "any", "toolCall": {"toolCallId": "call-1", "kind": "read"}, "options": []}
OPTION = {"optionId": "yes", "name": "Yes", "kind": "allow_once"}
DONE = {"sessionUpdate": "tool_call_update", "toolCallId": "call-1", "status": "completed"}
WRONG: list[tuple[str, dict[str, object]]] = [
    ("session/request_permission", {**CALL, "toolCall": "read"}),
    ("session/request_permission", {**CALL, "toolCall": {"toolCallId": {"a": 1}, "kind": "read"}}),
    ("session/request_permission", {**CALL, "toolCall": {"toolCallId": "call-1", "title": {"a": 1}}}),
    ("session/request_permission", {**CALL, "options": [{**OPTION, "optionId": {"a": 1}}]}),
    ("session/update", {"sessionId": "any", "update": {**DONE, "content": 5}}),
    ("session/update", {"sessionId": "any", "update": {**DONE, "locations": 5}}),
    ("fs/read_text_file", {"sessionId": "any", "path": "WORKSPACE/file", "line": "x"}),
    ("fs/read_text_file", {"sessionId": "any", "path": "WORKSPACE/file", "line": 1, "limit": [1]}),
    ("fs/read_text_file", {"sessionId": "any", "path": "WORKSPACE/file", "line": 1 << 62, "limit": 1 << 62}),
    ("terminal/create", {"sessionId": "any", "command": "tr\0ue"}),
    ("terminal/create", {"sessionId": "any", "command": "true", "args": ["a\0b"]}),
    ("terminal/create", {"sessionId": "any", "command": "true", "env": [{"name": "A\0", "value": "="}]}),
    ("terminal/create", {"sessionId": "any", "command": "true", "env": [5]}),
    ("terminal/output", {}),
]


def test_no_wrong_parameter_ends_the_keeper(permissive: Session) -> None:
    (permissive.workspace / "file").write_text("one\n")
    keeper = permissive.meta["keeper"]
    turn = permissive.prompt(
        *(
            step("notify" if method == "session/update" else "request", method=method, params=params).replace(
                "WORKSPACE", str(permissive.workspace)
            )
            for method, params in WRONG
        ),
        step("echo", text="still here"),
    )
    requests = [method for method, _ in WRONG if method != "session/update"]
    assert len(turn.results) == len(requests) + 1
    assert turn.results[-1] == "still here"
    assert permissive.meta["keeper"] == keeper
