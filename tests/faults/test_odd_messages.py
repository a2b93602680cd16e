"""Messages that no agent should send: each is answered or noted, and the session works on."""

from __future__ import annotations

import gc
import json
import os
import random
import resource
import shlex
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from agh.keeper.leash.child import Leashed
from agh.keeper.loop import Loop
from tests.support.live import Live, Session
from tests.support.processes import cpu_ticks_of, is_alive
from tests.support.wait import wait_until

HUGE = (1 << 63, (1 << 64) - 1, 10**40, -(1 << 63), 1.5e308)

# An agent that answers each request with the result, or the error, that ODD_REPLIES names for its method.
# In front of its answer to a prompt it sends the lines of the prompt's text and waits for the answers to
# those that are requests: so no answer is still under way when the turn ends. A first line `REPLY …` is the
# answer to this prompt.
AGENT = """
import json, os, sys

replies = json.loads(os.environ["ODD_REPLIES"])
replies = {
    "initialize": {"result": {"protocolVersion": 1}},
    "session/new": {"result": {"sessionId": "odd"}},
    "session/prompt": {"result": {"stopReason": "end_turn"}},
} | replies

def send(text):
    sys.stdout.write(text + "\\n")
    sys.stdout.flush()

def say(text):
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    params = {"sessionId": "odd", "update": chunk}
    send(json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}))

for line in sys.stdin:
    frame = json.loads(line)
    if "method" not in frame or "id" not in frame:
        continue
    if frame["method"] == "session/prompt":
        lines = frame["params"]["prompt"][0]["text"].splitlines()
        reply = replies[frame["method"]]
        if lines[0].startswith("REPLY "):
            reply = json.loads(lines.pop(0).removeprefix("REPLY "))
        owed = set()
        for text in lines:
            send(text)
            try:
                message = json.loads(text)
                if "method" in message and isinstance(message.get("id"), (int, str)):
                    owed.add(message["id"])
            except (ValueError, TypeError, AttributeError):
                pass
        errors = {}
        while owed:
            answer = json.loads(sys.stdin.readline())
            if "method" not in answer:
                owed.discard(answer["id"])
                if "error" in answer:
                    errors[answer["id"]] = answer["error"]
        say(json.dumps(errors))
    else:
        reply = replies.get(frame["method"], {"result": {}})
    send(json.dumps({"jsonrpc": "2.0", "id": frame["id"], **reply}))
"""
ODD_AGENT = shlex.join([sys.executable, "-c", AGENT])


def new_session(live: Live, replies: dict[str, Any] | None = None, *args: str, code: int = 0) -> Session:
    """Return a session on the agent above; `replies` are its odd answers, by method."""
    environ = {"ODD_REPLIES": json.dumps(replies or {})}
    argv = ("--command", ODD_AGENT, "--permissions", "approve-all", *args)
    live.agh("session", "new", *argv, env=environ, code=code)
    return live.sessions()[-1]


@pytest.fixture(scope="module")
def module_odd(module_live: Live) -> Session:
    return new_session(module_live)


@pytest.fixture
def odd(shared_live: Live, module_odd: Session) -> Session:
    """Return a session on the agent above that the tests share."""
    return module_odd


def answer_to_prompt(result: Any) -> str:
    """Return a first line for a prompt whose answer has this result."""
    return "REPLY " + json.dumps({"result": result})


def request(number: int, method: str, **params: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


def update(kind: Any, **fields: Any) -> str:
    params = {"sessionId": "odd", "update": {"sessionUpdate": kind, **fields}}
    return json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params})


def send(session: Session, *lines: str) -> dict[str, Any]:
    """Have the agent send these lines in one turn; the errors it got, by the id of the request."""
    keeper = session.keeper
    turn = session.send("\n".join(lines))
    wait_until(lambda: session.has_ended(turn) or not is_alive(keeper), what=lines[0][:200])
    log = (session.directory / "keeper.log").read_text()
    assert is_alive(keeper), f"the keeper is gone after {lines[0][:200]}: {log[-600:]}"
    (end,) = session.events("done", "error", turn=turn)
    assert end.content["stop_reason"] == "end_turn", end
    errors: dict[str, Any] = json.loads(session.text(turn))
    return errors


def check_alive(session: Session) -> None:
    """Check that a normal prompt works and that agh reported no bug of its own."""
    assert send(session, update("agent_message_chunk", content={"type": "text", "text": ""})) == {}
    session.check_log()
    assert "Traceback" not in (session.directory / "keeper.log").read_text()


def chain_of_links(folder: Path, length: int = 1500) -> Path:
    (folder / "link0").write_text("end")
    for number in range(1, length):
        os.symlink(f"link{number - 1}", folder / f"link{number}")
    return folder / f"link{length - 1}"


# A keeper with mistakes of its own.
BROKEN = """
import sys
if "agh.keeper.main" in sys.orig_argv:
    from agh.keeper.agent import incoming as requests, terminals
    from agh.keeper.turns import usage as spending

    def fail(*args):
        raise ZeroDivisionError("broken on purpose")

    def output(live, frame, params):
        agent = live.agent.connected
        live.log.then(lambda: agent.answer(frame.id, fail))

    requests._HANDLERS["fs/read_text_file"] = fail
    requests._HANDLERS["terminal/output"] = output
    requests._follow_tool = fail
    spending.store_usage = fail
"""
BROKEN_CAUSE = "ZeroDivisionError: broken on purpose"


def limit_descriptors(pid: int, number: int) -> None:
    """Let a process open none beyond this number; those that it has stay open."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (number, hard))


OPTIONS = [
    {"optionId": "y", "name": "Yes", "kind": "allow_once"},
    {"optionId": "n", "name": "No", "kind": "reject_once"},
]


@pytest.mark.parametrize("path", ["/proc/1/cwd", "/proc/1/root", "/proc/1/exe", "/proc/1/fd/0"])
def test_a_path_below_proc_is_outside_the_workspace(odd: Session, path: str) -> None:
    errors = send(
        odd,
        request(1, "fs/read_text_file", path=path),
        request(2, "fs/write_text_file", path=path, content="x"),
        request(3, "terminal/create", command="true", cwd=path),
    )
    assert {key: error["code"] for key, error in errors.items()} == dict.fromkeys("123", -32001)
    check_alive(odd)


def test_a_chain_of_links_is_outside_the_workspace(odd: Session) -> None:
    link = str(chain_of_links(odd.live.workspace))
    errors = send(
        odd,
        request(1, "fs/read_text_file", path=link),
        request(2, "fs/write_text_file", path=f"{link}/x", content="x"),
        request(3, "terminal/create", command="true", cwd=link),
    )
    assert {key: error["code"] for key, error in errors.items()} == dict.fromkeys("123", -32001)
    check_alive(odd)


def test_a_permission_for_a_path_that_cannot_be_resolved_is_asked_of_a_person(live: Live) -> None:
    live.configure("[permissions]\ntimeout = '0.2s'\n")
    session = new_session(live)
    link = str(chain_of_links(live.workspace))
    calls = [
        {"kind": "read", "locations": [{"path": "/proc/1/cwd/x"}]},
        {"kind": "read", "locations": [{"path": link}]},
        {"kind": "read", "rawInput": {"path": f"{link}/../../work/in.txt"}},
        {"kind": "read", "rawInput": {"file_path": "a\0b"}},
        {"kind": "read", "content": [{"path": "/" + "a/" * 10_000}]},
    ]
    lines = [
        request(number, "session/request_permission", toolCall={"toolCallId": "t", **call}, options=OPTIONS)
        for number, call in enumerate(calls, 1)
    ]
    assert send(session, *lines) == {}
    decisions = [event.content for event in session.events("permission") if "decision" in event.content]
    assert [one["decided_by"] for one in decisions] == ["timeout"] * len(calls)
    check_alive(session)


def test_an_empty_variable_name(odd: Session) -> None:
    errors = send(odd, request(1, "terminal/create", command="true", env=[{"name": "", "value": "x"}]))
    assert errors["1"]["code"] == -32602
    check_alive(odd)


@pytest.mark.parametrize("number", HUGE)
def test_numbers_that_no_count_can_be(odd: Session, number: float) -> None:
    usage = {"inputTokens": number, "outputTokens": number, "totalTokens": number}
    text = {"type": "text", "text": ""}
    send(
        odd,
        answer_to_prompt({"stopReason": "end_turn", "usage": usage}),
        update("usage_update", used=number, size=number, cost={"amount": number, "currency": "USD"}),
        update("agent_message_chunk", content=text, _meta={"usage": usage}),
        update("agent_message_chunk", content=text, _meta={"usage": usage}),
    )
    check_alive(odd)
    odd.agh("usage")


@pytest.mark.parametrize(
    "capabilities",
    [[], "x", 5, {"promptCapabilities": 5}, {"sessionCapabilities": "x"}, {"loadSession": "x"}],
    ids=repr,
)
def test_capabilities_that_are_no_objects(live: Live, capabilities: Any) -> None:
    answer = {"protocolVersion": 1, "agentCapabilities": capabilities, "authMethods": {"a": 1}}
    replies = {"initialize": {"result": answer}, "session/load": {"result": 5}}
    session = new_session(live, replies)
    check_alive(session)
    session.stop()
    session.prompt(update("plan", entries=[]), env={"ODD_REPLIES": json.dumps(replies)})
    check_alive(session)


@pytest.mark.parametrize("answer", [None, 5, "x", [], {}, {"sessionId": 5}, {"sessionId": []}], ids=repr)
def test_a_session_without_an_id(live: Live, answer: Any) -> None:
    session = new_session(live, {"session/new": {"result": answer}}, code=1)
    assert session.meta()["state"] == "stopped"
    assert "no session id" in session.meta()["failure"]["summary"]


def test_offers_of_wrong_types(live: Live) -> None:
    odd = {"configOptions": [5, {"id": [], "options": 5}, {"id": {}, "options": ["x", {"options": [5]}]}]}
    answer = {"sessionId": "odd", "modes": {"availableModes": [5, {}]}, "models": "x", **odd}
    session = new_session(live, {"session/new": {"result": answer}})
    session.agh("set", "model", "x", code=2)
    check_alive(session)


@pytest.mark.parametrize(
    "methods",
    [{"a": 1}, "x", [5], [{"type": "env_var", "vars": 5}], [{"type": "env_var", "vars": [{"name": "HOME"}]}]],
    ids=repr,
)
def test_a_log_in_by_methods_of_wrong_types(live: Live, methods: Any) -> None:
    refusal = {"error": {"code": -32000, "message": "log in", "data": {"authMethods": methods}}}
    answer = {"protocolVersion": 1, "authMethods": methods}
    session = new_session(live, {"initialize": {"result": answer}, "session/new": refusal}, code=9)
    assert session.meta()["failure"]["kind"] == "provider_auth_failure"


@pytest.mark.parametrize("answer", [5, "x", [], {"stopReason": [], "usage": [], "_meta": 5}], ids=repr)
def test_answers_to_a_prompt_of_wrong_types(odd: Session, answer: Any) -> None:
    keeper = odd.keeper
    turn = odd.send(answer_to_prompt(answer) + "\n" + update("plan", entries=[]))
    wait_until(lambda: odd.has_ended(turn))
    assert odd.keeper == keeper


def test_one_bad_frame_leaves_the_others_of_its_batch(
    live: Live, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A mistake of ours, as it were: whatever it is that fails, it costs that one frame."""
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "sitecustomize.py").write_text(BROKEN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "broken"))
    session = new_session(live)
    chunks = [update("agent_message_chunk", content={"type": "text", "text": ""}, messageId=x) for x in "abc"]
    errors = send(
        session,
        chunks[0],
        request(1, "fs/read_text_file", path=str(live.workspace)),
        chunks[1],
        update("tool_call", toolCallId="t", title="tool"),
        request(2, "terminal/output", terminalId="t"),
        request(3, "terminal/kill", terminalId="t"),
        chunks[2],
    )
    assert errors["1"] == {"code": -32603, "message": f"fs/read_text_file failed: {BROKEN_CAUSE}"}
    assert errors["2"] == {"code": -32603, "message": BROKEN_CAUSE}, "an act that fails is answered too"
    assert errors["3"]["code"] == -32002, "the act after it is done"
    identifiers = [event.content.get("message_id") for event in session.events("agent_message")]
    assert identifiers[:3] == ["a", "b", "c"]
    warnings = [event.content for event in session.events("runtime_warning")]
    assert [BROKEN_CAUSE in warning["text"] for warning in warnings] == [True] * 3
    assert [warning["raw"]["method"] for warning in warnings[:2]] == ["fs/read_text_file", "session/update"]
    assert session.count("tool_call") == 1
    check_alive(session)


def test_a_turn_whose_end_cannot_be_handled_ends_as_failed(
    live: Live, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "sitecustomize.py").write_text(BROKEN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "broken"))
    answer = {"stopReason": "end_turn", "usage": {"inputTokens": 1}}
    session = new_session(live, {"session/prompt": {"result": answer}})
    keeper = session.keeper
    for _ in range(2):
        turn = session.send(update("plan", entries=[]))
        wait_until(lambda: session.has_ended(turn) or not is_alive(keeper))  # noqa: B023
        (end,) = session.events("done", "error", turn=turn)
        assert BROKEN_CAUSE in end.content["error"]
    wait_until(lambda: session.inputs()[-1][0] == "failed")
    assert session.keeper == keeper
    session.check_log()


def test_more_than_1024_descriptors(tmp_path: Path) -> None:
    """Beyond what select() can take: both in the keeper and in a leash, whose pipes keep their numbers."""
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    output: list[bytes] = []
    loop = Loop()
    try:
        process = Leashed(
            loop,
            ["/bin/sh", "-c", "echo hello; sleep 60 & exit 3"],
            dict(os.environ),
            str(tmp_path),
            lambda stream, data: output.append(data),
            lambda: None,
        )
        leash = process._process
        assert min(leash.stdin, leash.stdout, leash.stderr, leash.life, leash.status) > 1024
        assert loop.run_until(lambda: process.over, 10)
    finally:
        for fd in opened:
            os.close(fd)
    assert b"".join(output) == b"hello\n"
    assert process.exit == {"exit": 3, "signal": None}


def test_a_process_that_cannot_start_leaves_no_descriptors(tmp_path: Path) -> None:
    gc.collect()
    before = os.listdir("/proc/self/fd")
    for cwd, environ in ((str(tmp_path / "none"), {}), (str(tmp_path), {"": "x"})):
        with pytest.raises((OSError, ValueError)):
            Leashed(Loop(), ["true"], environ, cwd, lambda *_: None, lambda: None)
    gc.collect()  # the loops' own
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_terminals_cannot_take_the_last_descriptors(live: Live) -> None:
    """They are refused while commands can still reach the keeper."""
    session = new_session(live)
    limit_descriptors(session.keeper, 128)
    lines = [request(number, "terminal/create", command="sleep", args=["60"]) for number in range(1, 41)]
    errors = send(session, *lines)
    assert 5 < len(errors) < 40
    messages = {error["message"] for error in errors.values()}
    assert messages == {"[Errno 24] too many terminals are open"}
    check_alive(session)
    session.stop()


def test_a_keeper_without_descriptors_serves_again_when_it_has_some(live: Live) -> None:
    session = new_session(live)
    keeper = session.keeper
    limit_descriptors(keeper, 3)
    with session.connect() as connection:
        connection.sendall(b'{"v":1,"verb":"hello"}\n')
        before = cpu_ticks_of(keeper)
        connection.settimeout(0.5)
        with pytest.raises(TimeoutError):
            connection.recv(100)
        assert cpu_ticks_of(keeper) - before < 20, "it must not spin while it waits"
        limit_descriptors(keeper, 1024)
        connection.settimeout(10)
        assert b'"ok"' in connection.recv(1000)
    check_alive(session)


def test_a_question_is_withdrawn_by_its_own_id_only(live: Live) -> None:
    session = new_session(live, None, "--permissions", "approve-reads")
    tool = {"toolCallId": "t", "kind": "edit"}
    ask = request(1, "session/request_permission", toolCall=tool, options=OPTIONS)
    cancels = [
        json.dumps({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": odd}})
        for odd in (True, 1.0, "1", None, [], {}, 1e300, 1)
    ]
    errors = send(session, ask, *cancels)
    assert errors["1"]["code"] == -32800
    (decision,) = [event.content for event in session.events("permission") if "decision" in event.content]
    assert decision["decided_by"] == "agent"
    check_alive(session)


ODD_VALUES: list[Any] = [
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 2**64 - 1, 10**30, -(2**63), 0.5, -0.0, 1e308),
    *("", "x", "1", "a\0b", "../..", "/", "/proc/self/root", "/proc/1/cwd", "/dev/zero", "\ufffd\uffff"),
    *("allow_once", "completed", "failed", "execute", "read", "text", "diff"),
    *([], {}, [None], [[]], [{}], ["x"], [1], {"path": 5}, [{"path": []}], {"x": None}, {"": ""}),
    [{"name": "", "value": None}],
    [{"optionId": {}, "kind": []}],
    [{"optionId": "y", "kind": ["allow_once"]}],
]
FIELDS = {
    "session/update": (),
    "session/request_permission": ("toolCall", "options", "sessionId"),
    "fs/read_text_file": ("path", "line", "limit"),
    "fs/write_text_file": ("path", "content"),
    "terminal/create": ("command", "args", "env", "cwd", "outputByteLimit"),
    "terminal/output": ("terminalId",),
    "terminal/wait_for_exit": ("terminalId",),
    "terminal/kill": ("terminalId",),
    "terminal/release": ("terminalId",),
    "elicitation/create": ("message", "mode", "url", "requestedSchema", "elicitationId", "toolCallId"),
    "elicitation/complete": ("elicitationId",),
    "$/cancel_request": ("requestId",),
    "x/unknown": ("x",),
}
UPDATE_KINDS = (
    *("agent_message_chunk", "agent_thought_chunk", "user_message_chunk", "tool_call", "tool_call_update"),
    *("plan", "usage_update", "session_info_update", "current_mode_update", "available_commands_update"),
    *("config_option_update", "notice", "compaction_update", "compaction_summary_chunk"),
)
UPDATE_FIELDS = (
    *("content", "toolCallId", "title", "kind", "status", "rawInput", "rawOutput", "locations", "_meta"),
    *("entries", "used", "size", "cost", "currentModeId", "messageId", "sessionUpdate"),
    *("severity", "description", "compactionId", "error"),
)
TOOL_FIELDS = ("toolCallId", "title", "kind", "status", "content", "locations", "rawInput", "_meta")


def odd_frames(random: random.Random, workspace: str) -> Iterator[str]:
    """Well-formed messages over every method whose fields hold anything."""

    def odd() -> Any:
        return random.choice(ODD_VALUES)

    def nested(depth: int) -> Any:
        value = odd()
        for _ in range(random.randrange(depth)):
            value = {random.choice(UPDATE_FIELDS): value} if random.random() < 0.5 else [value]
        return value

    for number in range(1, 1 << 30):
        method = random.choice([*FIELDS])
        chosen = [field for field in FIELDS[method] if random.random() < 0.9]
        params: Any = {field: odd() for field in chosen}
        if method == "session/update":
            fields = {field: nested(60) for field in UPDATE_FIELDS if random.random() < 0.4}
            if random.random() < 0.9:
                fields["sessionUpdate"] = random.choice(UPDATE_KINDS)
            params = {"sessionId": odd(), "update": fields if random.random() < 0.95 else odd()}
        elif method == "session/request_permission" and random.random() < 0.7:
            params["toolCall"] = {field: odd() for field in TOOL_FIELDS if random.random() < 0.6}
            params["options"] = random.choice([OPTIONS, [*OPTIONS, odd()], [{**OPTIONS[0], "kind": odd()}]])
        elif "path" in params and random.random() < 0.5:
            params["path"] = f"{workspace}/{random.choice(['a', 'new/b', '.', 'a/x', 'a' * 300])}"
        elif "command" in params and random.random() < 0.5:
            params["command"] = random.choice(["true", "/none", "exit 3"])
        params = params if random.random() < 0.97 else random.choice([[], [1], {}])
        frame = {"jsonrpc": "2.0", "method": method, "params": params}
        if method not in ("session/update", "$/cancel_request"):
            frame["id"] = number if random.random() < 0.8 else f"q{number}"
        yield json.dumps(frame)


@pytest.mark.parametrize("seed", range(2))
def test_hundreds_of_odd_frames_in_one_session(live: Live, seed: int) -> None:
    live.configure("[permissions]\ntimeout = '0.01s'\n[questions]\ntimeout = '0.01s'\n")
    session = new_session(live)
    keeper = session.keeper
    frames = odd_frames(random.Random(seed), str(live.workspace))
    for _ in range(6):
        # A terminal that reads for ever is not awaited, and the others have nothing to wait for.
        send(session, *islice(frames, 60))
    assert session.keeper == keeper
    assert [event.content["text"] for event in session.events("runtime_warning")] == []
    check_alive(session)
    session.stop()
    assert "Traceback" not in (session.directory / "keeper.log").read_text()


def odd_replies(random: random.Random) -> dict[str, Any]:
    """Answers to all that agh asks of an agent, of which some have the right form outside."""

    def reply() -> dict[str, Any]:
        error = {"code": random.choice([-32000, -32002, odd()]), "message": odd(), "data": odd()}
        return {"error": error} if random.random() < 0.3 else {"result": odd()}

    def odd() -> Any:
        return random.choice(ODD_VALUES)

    session = {key: odd() for key in ("resume", "close", "list", "systemPrompt")}
    capabilities = {"sessionCapabilities": random.choice([session, odd()]), "promptCapabilities": odd()}
    greeting = {"protocolVersion": 1, "agentCapabilities": {"loadSession": odd(), **capabilities}}
    offers = {"modes": {"availableModes": odd()}, "models": odd(), "configOptions": [{"id": odd()}, odd()]}
    end = {"stopReason": odd(), "usage": {"inputTokens": odd()}, "_meta": {"usage": odd()}}
    return {
        "initialize": {"result": {**greeting, "authMethods": odd(), "agentInfo": odd()}},
        "session/new": random.choice([{"result": {"sessionId": "odd", **offers}}] * 3 + [reply()]),
        "session/prompt": random.choice([{"result": end}, reply()]),
        **{f"session/{method}": reply() for method in ("load", "resume", "list", "close")},
    }


@pytest.mark.parametrize("seed", range(4))
def test_odd_replies_to_everything(live: Live, seed: int) -> None:
    """A start may fail and a turn may, but never by a bug of agh's."""
    environ = {"ODD_REPLIES": json.dumps(odd_replies(random.Random(seed)))}
    start = live.agh("session", "new", "--command", ODD_AGENT, env=environ, code=None)
    assert start.returncode in (0, 1, 9), start
    (session,) = live.sessions()
    for _ in range(2):
        turn = session.prompt(update("plan", entries=[]), env=environ, code=None)
        assert turn.returncode in (0, 1, 9), turn
        session.agh("stop", code=None)
    assert "Traceback" not in (session.directory / "keeper.log").read_text()
