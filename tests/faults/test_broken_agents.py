"""Agents that break every rule: each ends in a clear event and message; the keeper stays up and small."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time

import pytest

from tests.support.live import Event, Live, Session
from tests.support.processes import is_alive, kill, memory_of
from tests.support.wait import wait_until

UPDATE = '{"jsonrpc":"2.0","method":"session/update","params":{"update":%s}}'
NONSENSE = [
    "42",
    "null",
    '"text"',
    "[]",
    "{}",
    "not JSON at all",
    '{"jsonrpc":"2.0"}',
    '{"id":0,"error":"x"}',
    '{"id":null,"result":1}',
    '{"jsonrpc":"2.0","id":999,"result":{}}',
    '{"jsonrpc":"2.0","id":"3","result":{"stopReason":"end_turn"}}',
    '{"jsonrpc":"2.0","id":true,"result":{}}',
    '{"jsonrpc":"2.0","id":{"a":1},"method":"x"}',
    '{"jsonrpc":"2.0","id":1e999,"result":{}}',
    '{"jsonrpc":"2.0","method":7}',
    '{"jsonrpc":"2.0","method":"session/update","params":7}',
    "[" * 5000 + "]" * 5000,
    '{"a":' * 5000 + "1" + "}" * 5000,
]
ODD_BUT_FINE = [
    '{"jsonrpc":"2.0","method":"session/update","params":{"update":7}}',
    '{"jsonrpc":"2.0","method":"session/update","params":null}',
    '{"method":"_other/thing"}',
    '{"jsonrpc":"2.0","id":"q1","method":"no/such/method","params":{}}',
    '{"jsonrpc":"2.0","id":"q2","method":"session/request_permission","params":{}}',
    '{"jsonrpc":"2.0","id":"q3","method":"fs/read_text_file"}',
    '{"jsonrpc":"2.0","id":"q4","method":"terminal/output","params":{"terminalId":"none"}}',
    '{"jsonrpc":"2.0","id":"q5","method":"terminal/create","params":{"command":["a"],"args":7}}',
    UPDATE % '{"sessionUpdate":null}',
    UPDATE % '{"sessionUpdate":["agent_message_chunk"]}',
    UPDATE % '{"sessionUpdate":"agent_message_chunk"}',
    UPDATE % '{"sessionUpdate":"agent_message_chunk","content":"text"}',
    UPDATE % '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":7}}',
    UPDATE % r'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"lone \ud800 half"}}',
    UPDATE % '{"sessionUpdate":"agent_message_chunk","content":{"type":"image","data":"AAAA"}}',
    UPDATE % '{"sessionUpdate":"tool_call","toolCallId":null,"title":{"a":1},"rawInput":7}',
    UPDATE % '{"sessionUpdate":"usage_update","used":"x","size":1e400,"cost":5}',
    UPDATE
    % '{"sessionUpdate":"usage_update","used":99999999999999999999999999,"size":-1,"cost":{"amount":-5}}',
    UPDATE % '{"sessionUpdate":"session_info_update","title":7}',
    UPDATE % '{"sessionUpdate":"plan","entries":"none"}',
]
HOSTILE = [
    # Well-formed JSON-RPC whose fields are of the wrong kind.
    UPDATE % '{"sessionUpdate":"tool_call_update","toolCallId":"a","status":"completed","content":7}',
    UPDATE % '{"sessionUpdate":"tool_call_update","toolCallId":"a","status":"completed","locations":7}',
    UPDATE % '{"sessionUpdate":"tool_call_update","toolCallId":"a","status":["completed"]}',
    '{"jsonrpc":"2.0","id":"h1","method":"session/request_permission","params":{"toolCall":"x","options":[]}}',
    '{"jsonrpc":"2.0","id":"h2","method":"session/request_permission",'
    '"params":{"toolCall":{"kind":"read","content":7},"options":[{"optionId":"y","kind":"allow_once"}]}}',
    '{"jsonrpc":"2.0","id":"h3","method":"fs/read_text_file","params":{"path":"@/in.txt","line":"x"}}',
    '{"jsonrpc":"2.0","id":"h4","method":"fs/read_text_file","params":{"path":"@/in.txt","limit":{}}}',
    '{"jsonrpc":"2.0","id":"h5","method":"fs/read_text_file","params":{"path":"@/in.txt","line":1e300}}',
    r'{"jsonrpc":"2.0","id":"h6","method":"fs/read_text_file","params":{"path":"@/a\u0000b"}}',
    r'{"jsonrpc":"2.0","id":"h7","method":"fs/write_text_file","params":{"path":"@/a\u0000b","content":"x"}}',
    r'{"jsonrpc":"2.0","id":"h8","method":"terminal/create","params":{"command":"echo","args":["a\u0000b"]}}',
    r'{"jsonrpc":"2.0","id":"h9","method":"terminal/create","params":{"command":"a\u0000b"}}',
    '{"jsonrpc":"2.0","id":"h10","method":"terminal/create",'
    '"params":{"command":"echo","env":[{"name":"A=B","value":"x"}]}}',
    '{"jsonrpc":"2.0","id":"h11","method":"terminal/create","params":{"command":"echo","cwd":"@/none"}}',
    '{"jsonrpc":"2.0","id":"h12","method":"terminal/create","params":{"command":"echo","outputByteLimit":[]}}',
    '{"jsonrpc":"2.0","id":"h13","method":"fs/write_text_file","params":{"path":"@","content":"x"}}',
    '{"jsonrpc":"2.0","id":"h14","method":"terminal/wait_for_exit","params":{"terminalId":{}}}',
]


def survives(session: Session, line: str) -> bool:
    """Tell whether the keeper lives on and the turn ends as it should after this line from the agent."""
    keeper = session.revive()
    turn = session.send(f"/raw {line.replace('@', str(session.live.workspace))}\n/say after")
    wait_until(lambda: session.events("done", "error", turn=turn) or not is_alive(keeper), what=line)
    ended = [event.content.get("stop_reason") for event in session.events("done", "error", turn=turn)]
    return ended == ["end_turn"] and is_alive(keeper)


def new_events(session: Session, before: int, type: str) -> list[Event]:
    """Return the events of a type that a session has got since it had so many."""
    return [event for event in session.events(type) if event.sequence > before]


def test_what_is_no_message_is_a_warning_and_no_more(shared: Session) -> None:
    before = shared.count("runtime_warning")
    for number, line in enumerate(NONSENSE, 1):
        assert survives(shared, line), line
        warnings = shared.events("runtime_warning")[before:]
        assert len(warnings) == number, line
        assert warnings[-1].content["text"]
        assert warnings[-1].content["raw"]
    shared.check_log()
    assert warnings[0].content["raw"]["length"] == 2


def test_odd_messages_are_recorded(shared: Session) -> None:
    before = len(shared.events())
    assert [line for line in ODD_BUT_FINE if not survives(shared, line)] == []
    assert new_events(shared, before, "runtime_warning") == []
    shared.check_log()
    messages = new_events(shared, before, "agent_message")
    (lone,) = [event for event in messages if event.content.get("sanitized")]
    assert lone.content["text"] == "lone \ufffd half"


def test_no_message_can_end_the_keeper(live: Live) -> None:
    (live.workspace / "in.txt").write_text("one\ntwo\n")
    session = live.new(args=("--permissions", "approve-all"))
    assert [line for line in HOSTILE if not survives(session, line)] == []
    session.check_log()


def test_an_odd_answer_ends_the_turn(live: Live) -> None:
    session = live.new()
    keeper = session.keeper
    for number, answer in enumerate(
        [
            '"result":null',
            '"result":7',
            '"result":{"stopReason":["x"],"usage":{"inputTokens":"x"}}',
            '"result":{"stopReason":"end_turn","usage":{"inputTokens":99999999999999999999999999}}',
            '"error":"x"',
            '"error":{"code":"x","message":7,"data":[1]}',
            '"error":null,"result":{"stopReason":"end_turn"}',
        ],
        start=1,
    ):
        lines = [f'/raw {{"jsonrpc":"2.0","id":{one},{answer}}}' for one in range(3, 20)]
        turn = session.send("\n".join(lines))
        wait_until(lambda: session.has_ended(turn) or not session.is_live())  # noqa: B023
        assert session.keeper == keeper, answer
        # One of the lines was the answer; the others, and the agent's own, are one too many.
        wait_until(lambda: session.count("runtime_warning") >= number * len(lines), what=answer)  # noqa: B023
    session.check_log()
    assert session.tell("hello").endswith("echo: hello")


def test_bad_bytes(shared: Session) -> None:
    before = len(shared.events())
    assert shared.tell("/bytes fffe00800a\n/say after").endswith("after")
    (warning,) = new_events(shared, before, "runtime_warning")
    assert warning.content["raw"]["length"] == 4
    bad = UPDATE % '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a@b"}}'
    shared.tell(f"/bytes {bad.encode().replace(b'@', bytes([0xFF])).hex()}0a\n/say after")
    messages = new_events(shared, before, "agent_message")
    (mended,) = [event for event in messages if event.content.get("sanitized")]
    assert mended.content["text"] == "a\ufffdb"
    shared.check_log()


def test_stray_lines_at_the_start_are_warnings(live: Live) -> None:
    session = live.new("--chatter")
    assert session.say("hello") == "echo: hello"
    (warning,) = session.events("runtime_warning")
    assert warning.turn_id == ""
    assert "stray line" in json.dumps(warning.content["raw"])


def test_stdout_closed_but_alive(live: Live) -> None:
    session = live.new("--deaf")
    started = time.monotonic()
    result = session.prompt("/say begun\n/close-stdout\n/sleep 60", code=7)
    assert time.monotonic() - started < 10
    assert "begun" in result.stdout
    wait_until(lambda: not live.processes())
    assert session.meta()["state"] == "stopped"
    assert "stdout" in session.meta()["failure"]["summary"], "what the agent did, not what agh then did to it"
    assert session.say("what did I say?").startswith("SEEN 2")
    session.kill_keeper()  # to stop a deaf agent would take all the graces


def test_a_flood_on_stderr(live: Live) -> None:
    session = live.new()
    assert session.tell("/stderr-flood 64\n/say after") == "after"
    assert memory_of(session.keeper, "VmHWM") < 40


def test_never_answering_initialize(live: Live) -> None:
    live.configure("[timeouts]\ninitialize = '1s'")
    result = live.agh("session", "new", "--agent", "echo", env={"AGH_ECHO_OPTIONS": "--init-hang"}, code=3)
    assert "initialize" in result.stderr
    wait_until(lambda: not live.processes())
    (session,) = live.sessions()
    assert session.meta()["failure"]["kind"] == "timeout"
    assert session.say("hello") == "echo: hello"


def test_never_answering_session_new(live: Live) -> None:
    live.configure("[timeouts]\nnew = '1s'")
    script = (
        "import sys, json\n"
        "for line in sys.stdin:\n"
        "    frame = json.loads(line)\n"
        "    if frame['method'] == 'initialize':\n"
        "        print(json.dumps({'id': frame['id'], 'result': {'protocolVersion': 1}}), flush=True)\n"
    )
    result = live.agh("session", "new", "--command", shlex.join([sys.executable, "-c", script]), code=3)
    assert "session/new" in result.stderr
    wait_until(lambda: not live.processes())


@pytest.mark.parametrize("argv", ["cat /dev/zero", "true", "cat"])
def test_programs_that_are_no_agents(live: Live, argv: str) -> None:
    live.configure("[timeouts]\ninitialize = '0.2s'")
    started = time.monotonic()
    result = live.agh("session", "new", "--command", argv, code=None)
    assert result.returncode in (1, 3, 7, 9)
    assert result.stderr.startswith("agh: ")
    assert time.monotonic() - started < 15
    wait_until(lambda: not live.processes())
    (session,) = live.sessions()
    assert session.meta()["state"] == "stopped"
    session.check_log()


def test_a_flood_of_nonsense_does_not_fill_the_disk(live: Live) -> None:
    live.configure("[timeouts]\ninitialize = '0.3s'")
    live.agh("session", "new", "--command", "yes", code=3)
    (session,) = live.sessions()
    wait_until(lambda: not live.processes())
    size = sum(path.stat().st_size for path in session.directory.iterdir())
    print(f"0.3 seconds of `yes`: {len(session.events())} events, {size >> 20} MiB")
    assert size < 4 << 20


def test_a_fifo_does_not_hang_the_keeper(live: Live) -> None:
    os.mkfifo(live.workspace / "fifo")
    session = live.new()
    keeper = session.keeper
    session.send("/read fifo\n/say after")
    try:
        wait_until(lambda: "after" in session.text())
    finally:
        if not session.count("done"):
            kill(keeper)


def test_a_huge_file_does_not_fill_the_memory(live: Live) -> None:
    with open(live.workspace / "huge", "wb") as huge:
        huge.truncate(400 << 20)
    session = live.new()
    keeper = session.keeper
    session.send("/read huge\n/say after")
    try:
        wait_until(lambda: "after" in session.text() or memory_of(keeper, "VmHWM") > 300)
        assert memory_of(keeper, "VmHWM") < 300
        session.wait_for_text("after")
    finally:
        kill(keeper)


def test_an_answer_lost_in_an_endless_line_ends_the_turn(live: Live) -> None:
    """What was cut off may have been the answer that the turn waits for: it cannot wait for ever."""
    session = live.new("--no-usage")  # so that the answer is what is glued to the line
    session.send("/say begun\n/no-newline 33")
    wait_until(lambda: session.count("runtime_warning"))
    wait_until(lambda: session.events("done", "error"))


@pytest.mark.slow
def test_no_newline_for_256_mib(live: Live) -> None:
    session = live.new()
    result = session.prompt("/say begun\n/no-newline 256", "-o", "text")
    assert result.stdout == "begun\n"
    peak = memory_of(session.keeper, "VmHWM")
    print(f"256 MiB without a newline: keeper at most {peak:.0f} MB")
    assert peak < 120
    (warning,) = session.events("runtime_warning")
    assert "longer than" in warning.content["text"]
    assert warning.content["raw"]["length"] > 256 << 20
    assert len(json.dumps(warning.content)) < 10_000
    assert session.tell("hello") == "echo: hello"
    session.check_log()


@pytest.mark.slow
def test_a_line_of_64_mib(live: Live) -> None:
    session = live.new()
    assert session.tell("/long-line 64\n/say after").strip() == "after"
    (warning,) = session.events("runtime_warning")
    assert "longer than" in warning.content["text"]
    assert warning.content["raw"]["length"] > 64 << 20
    assert len(warning.content["raw"]["sha256"]) == 64
    print(f"a line of 64 MiB: keeper at most {memory_of(session.keeper, 'VmHWM'):.0f} MB")
    assert memory_of(session.keeper, "VmHWM") < 120
    assert session.fetch("SELECT max(length(content)) FROM events")[0][0] < 10_000
    session.check_log()


@pytest.mark.slow
def test_the_longest_line_that_is_taken(live: Live) -> None:
    session = live.new()
    assert len(session.tell("/long-line 31")) == 31 << 20
    peak = memory_of(session.keeper, "VmHWM")
    print(f"a line of 31 MiB, stored: keeper at most {peak:.0f} MB")
    assert peak < 500
    assert session.count("runtime_warning") == 0
    session.check_log()
