"""No secret of an agent gets where it can be seen: not in errors, metadata, logs or crash bundles.

Only the log itself keeps what the agent sent as it came.
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.live import Live, Session
from tests.support.wait import wait_until

TOKEN = "sk-ant-" + "a1B2c3D4" * 6
WORD = "hunter2"  # hidden only for the name it has
ERROR = {
    "code": -32603,
    "message": f"the key {TOKEN} is refused",
    "data": {"api_key": WORD, TOKEN: ["a", f"x {TOKEN}"]},
}

# Answers the method that its first argument names with an error, everything else well. The error is an
# expression in hexadecimal digits: the command line of an agent is kept with its session.
REFUSING = r"""
import json, sys
def send(**message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
results = {
    "initialize": {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}},
    "session/new": {"sessionId": "s", "modes": {"currentModeId": "a", "availableModes": [{"id": "b"}]}},
    "session/prompt": {"stopReason": "end_turn"},
}
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == sys.argv[1]:
        send(id=message["id"], error=eval(bytes.fromhex(sys.argv[2])))
    elif "id" in message:
        send(id=message["id"], result=results.get(message["method"], {}))
"""
# Does what the prompt says, line by line, and then dies.
DYING = r"""
import json, os, sys
def send(**message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def update(**fields): send(method="session/update", params={"sessionId": "s", "update": fields})
def chunk(text, kind="agent_message_chunk"):
    update(sessionUpdate=kind, content={"type": "text", "text": text})
def tool(**fields): update(sessionUpdate="tool_call", toolCallId="t", title="look", **fields)
results = {"initialize": {"protocolVersion": 1}, "session/new": {"sessionId": "s"}}
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] != "session/prompt":
        send(id=message["id"], result=results[message["method"]])
        continue
    exec(message["params"]["prompt"][0]["text"])
    sys.stderr.flush()
    os._exit(3)
"""


def refusing(method: str, error: str = repr(ERROR)) -> tuple[str, str]:
    return "--command", shlex.join([sys.executable, "-c", REFUSING, method, error.encode().hex()])


def assert_hidden(text: str, *secrets: str) -> None:
    for secret in secrets or (TOKEN, TOKEN[7:], WORD):
        assert secret not in text, text[max(0, text.find(secret) - 200) :][:400]


def stored(session: Session) -> str:
    """Return all that a session leaves beside its log."""
    names = [session.directory / "meta.json", session.directory / "keeper.log"]
    names += (session.live.home / "logs").rglob("*.json")
    return "\n".join(path.read_text() for path in names if path.exists())


def bundle(session: Session) -> dict[str, Any]:
    (path,) = (session.live.home / "logs" / "crash-bundles").glob("*.json")
    document: dict[str, Any] = json.loads(path.read_text())
    return document


@pytest.mark.parametrize("output", ["human", "json", "jsonl"])
def test_a_prompt_that_the_agent_refuses(live: Live, output: str) -> None:
    session = live.new(args=refusing("session/prompt"))
    process = session.prompt("hello", "-o", output, code=1)
    assert "the key [redacted] is refused" in process.stderr
    assert_hidden(process.stderr)
    (error,) = session.events("error")
    assert_hidden(error.content["error"])
    assert error.content["raw"]["error"] == ERROR, "the log has what the agent sent"
    ((detail,),) = session.fetch("SELECT detail FROM inputs")
    assert_hidden(detail)
    if output == "human":
        assert_hidden(session.agh("events", "-o", "human").stdout)
        assert_hidden(session.agh("status").stdout)
        assert_hidden(session.agh("queue", "--all", code=None).stdout)
    session.stop()
    assert_hidden(stored(session))


@pytest.mark.parametrize("method", ["initialize", "session/new"])
@pytest.mark.parametrize("output", ["human", "json"])
def test_a_session_that_the_agent_refuses(live: Live, method: str, output: str) -> None:
    process = live.agh("session", "new", *refusing(method), "-o", output, code=None)
    assert process.returncode and "the key [redacted] is refused" in process.stderr
    assert_hidden(process.stderr)
    (session,) = live.sessions()
    assert_hidden(stored(session))
    assert_hidden(json.dumps([event.content for event in session.events("session_stopped")]))
    assert "[redacted]" in session.meta()["failure"]["summary"]
    assert_hidden(json.dumps(bundle(session)))


def test_a_login_that_the_agent_wants(live: Live) -> None:
    process = live.agh("session", "new", *refusing("session/new", repr(ERROR | {"code": -32000})), code=9)
    assert_hidden(process.stderr)
    assert_hidden(stored(live.sessions()[0]))


def test_a_conversation_that_the_agent_does_not_restore(live: Live) -> None:
    session = live.new(args=refusing("session/load"))
    session.tell("hello")
    session.stop()
    process = session.agh("resume", code=1)
    assert "the key [redacted] is refused" in process.stderr
    assert_hidden(process.stderr)
    assert_hidden(stored(session))


def test_a_mode_that_the_agent_refuses(live: Live) -> None:
    session = live.new(args=refusing("session/set_mode"))
    process = session.agh("set", "mode=b", code=1)
    assert "the key [redacted] is refused" in process.stderr
    assert_hidden(process.stderr)


def test_an_error_of_any_length_is_told_in_short(live: Live) -> None:
    """A secret where it is cut is not told by half."""
    text = f"'x' * 3980 + ' ' + {TOKEN!r} + 'y' * 2_000_000"
    error = f"{{'code': 1, 'message': {text}, 'data': ['z' * 3990 + {TOKEN!r}]}}"
    session = live.new(args=refusing("session/prompt", error))
    process = session.prompt("hello", code=1)
    assert len(process.stderr) < 10_000
    assert_hidden(process.stderr, TOKEN[:9])


CHUNKS = [f"chunk({TOKEN[:7]!r}); chunk({TOKEN[7:30]!r}); chunk({TOKEN[30:]!r})"]
CHUNKS += [f"chunk({TOKEN[:20]!r}); tool(); update(sessionUpdate='plan', entries=[]); chunk({TOKEN[20:]!r})"]
CHUNKS += [f"chunk({TOKEN[:20]!r}); [tool(n=n) for n in range(60)]; chunk({TOKEN[20:]!r})"]
CHUNKS += [f"chunk({TOKEN[:20]!r}); chunk('hm', 'agent_thought_chunk'); chunk({TOKEN[20:]!r})"]
CHUNKS += [f"[chunk(letter, 'agent_thought_chunk') for letter in {TOKEN!r}]"]
CHUNKS += [f"chunk('x' * 3_000_000 + {TOKEN[:20]!r}); chunk({TOKEN[20:]!r})"]
CHUNKS += [f"[chunk('x' * {size} + {TOKEN!r}) for _ in range(2)]" for size in (1900, 3830, 3850, 3870, 3890)]
CHUNKS += [f"tool(rawInput={{{TOKEN!r}: 1, 'password': {WORD!r}, 'x': 'y' * 100_000 + {TOKEN!r}}})"]


@pytest.mark.parametrize("script", CHUNKS)
def test_a_crash_bundle_has_no_piece_of_a_secret(live: Live, script: str) -> None:
    session = live.new(args=("--command", shlex.join([sys.executable, "-c", DYING])))
    session.prompt(script, code=7)
    wait_until(lambda: not session.is_live())
    bundle_data = bundle(session)
    events = [event for event in bundle_data["last_events"] if event["type"] != "user_message"]
    assert len(bundle_data["last_events"]) <= 20 and events
    assert all(len(event["content"]) <= 4000 for event in events)
    pieces = [TOKEN[at : at + 12] for at in range(7, len(TOKEN) - 12)]
    assert_hidden(json.dumps(events), *pieces, WORD)


@pytest.mark.parametrize("before", [16_000, 64 << 10, 16 << 10])
@pytest.mark.parametrize("half", [1, 10, 30])
def test_stderr_is_not_cut_through_a_secret(live: Live, before: int, half: int) -> None:
    """The end of stderr that is kept or told begins in the middle of a secret."""
    script = f"sys.stderr.write('a' * 90_000 + ' ' + {TOKEN!r} + ' ' + 'b' * {before - half})"
    session = live.new(args=("--command", shlex.join([sys.executable, "-c", DYING])))
    process = session.prompt(script, code=7)
    wait_until(lambda: not session.is_live())
    pieces = [TOKEN[at : at + 8] for at in range(7, len(TOKEN) - 8)]
    assert_hidden(process.stderr, *pieces)
    assert_hidden(bundle(session)["stderr"], *pieces)
    assert_hidden(json.dumps(session.meta()), *pieces)


def test_a_redacted_export_hides_keys_and_pieces_between_other_events(live: Live, tmp_path: Path) -> None:
    session = live.new(args=("--command", shlex.join([sys.executable, "-c", DYING])))
    script = "tool(rawInput={token: 1}); chunk(token[:20]); tool(); chunk(token[20:])"
    session.send(f"token = bytes.fromhex({TOKEN.encode().hex()!r}).decode(); {script}")
    wait_until(lambda: not session.is_live())
    for format in ("jsonl", "html", "markdown"):
        path = tmp_path / f"copy.{format}"
        session.agh("export", "-o", format, "--to", path, "--redact")
        assert_hidden(path.read_text(), TOKEN[:20], TOKEN[20:], TOKEN[7:])
