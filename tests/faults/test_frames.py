"""Byte mutants of what a real agent sends: none raises, none grows, and what is stored of it is JSON."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
from collections import Counter

import orjson
import pytest

from agh.core.acp.frames import (
    HEAD,
    Malformed,
    Notification,
    Request,
    Response,
    Splitter,
    encode_error,
    encode_request,
)
from agh.core.acp.updates import event_of, token_usage, update_text
from agh.core.events import draft_of
from tests.support.live import ECHO
from tests.support.rounds import Rounds

MUTANTS, BATCH, TESTS = 30_000, 500, 2
STEPS = """/say né 😀 "quoted" \\ud83d
/think so
/plan a; b
/tool Read id=c1 path=x
/tool-fail Write id=c2
/edit x new
/usage 10 20 0.5
/title A title
/mode code
/unknown future
/ask kind=edit
/read x
/run true
/raw {"jsonrpc":"2.0","method":"m","params":["\\ud800",NaN,1e999,123456789012345678901]}
/bytes 7b226d6574686f64223a226dff227d0a"""
PIECES = (
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b'"',
        b"\\",
        b"\\u",
        b"\\ud800",
        b",",
        b":",
        b"\n",
        b"\r",
        b"\0",
        b"\xff",
        b"-",
    ),
    *(
        b"\xef\xbb\xbf",
        b"\xed\xa0\x80",
        b"NaN",
        b"1e999",
        b"0",
        b"9" * 25,
        b"null",
        b"true",
        b'"id":',
        b"[" * 300,
    ),
)
DATABASE = sqlite3.connect(":memory:")


def speak(agent: subprocess.Popen[bytes], number: int, method: str, params: dict[str, object]) -> list[bytes]:
    """Return what the agent sends until it has answered this; whatever it asks is refused."""
    assert agent.stdin and agent.stdout
    agent.stdin.write(encode_request(number, method, params))
    agent.stdin.flush()
    lines = []
    for line in agent.stdout:
        lines.append(line)
        (frame,) = Splitter().feed(line)
        if isinstance(frame, Response) and frame.id == number:
            break
        if isinstance(frame, Request):
            agent.stdin.write(encode_error(frame.id, -32601, "no"))
            agent.stdin.flush()
    return lines


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Return every kind of frame that the scripted agent knows to send."""
    state = tmp_path_factory.mktemp("echo")
    argv = [*ECHO, "--state", str(state)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as agent:
        lines = speak(agent, 1, "initialize", {"protocolVersion": 1})
        lines += speak(agent, 2, "session/new", {"cwd": str(state), "mcpServers": []})
        session = json.loads(lines[-1])["result"]["sessionId"]
        prompt = [{"type": "text", "text": STEPS}]
        lines += speak(agent, 3, "session/prompt", {"sessionId": session, "prompt": prompt})
        lines += speak(agent, 4, "session/load", {"sessionId": "none", "cwd": "/", "mcpServers": []})
        assert agent.stdin
        agent.stdin.close()
        agent.wait(10)
    assert len(lines) > 30
    return lines


def mutant(chance: random.Random, lines: list[bytes]) -> bytes:
    def below(limit: int) -> int:
        return int(chance.random() * limit)  # randrange takes longer than the rest of a mutation

    data = bytearray(lines[below(len(lines))])
    for _ in range((1, 1, 1, 1, 2, 5)[below(6)]):
        at = below(len(data))
        match below(8):
            case 0:
                data[at:at] = PIECES[below(len(PIECES))]
            case 1:
                del data[at : at + 1 + below(20)]
            case 2:
                del data[at:]
            case 3:
                data[at:at] = data[max(0, at - below(40)) : at]
            case 4:
                other = lines[below(len(lines))]
                data[at:] = other[below(len(other)) :]
            case _ if data:
                data[at] ^= 1 << below(8)
    return bytes(data)


def check(data: bytes, seen: Counter[str]) -> None:
    """Check that what becomes of a frame can be stored."""
    splitter = Splitter()
    frames = splitter.feed(data) + splitter.close()
    assert len(frames) <= data.count(b"\n") + 1
    for frame in frames:
        seen[type(frame).__name__] += 1
        if isinstance(frame, Malformed):
            assert len(frame.head) <= HEAD and len(frame.reason) < 100 and frame.length <= len(data)
            orjson.dumps(frame._asdict())
            continue
        raw = frame.raw
        assert len(raw) <= 2 * len(data)
        assert frame.sanitized or raw in data
        if isinstance(frame, Notification) and isinstance(frame.params, dict):
            update = frame.params.get("update")
            if isinstance(update, dict):
                kind, fields = event_of(update)
                seen[kind] += 1
                raw = raw if frame.sanitized else update_text(raw, update)
                raw = draft_of(kind, "t", "s", "", fields, raw).whole().encode()
                assert len(raw) < 8 * len(data) + 1000
        elif isinstance(frame, Response) and isinstance(frame.result, dict):
            token_usage(frame.result.get("usage"))
        assert DATABASE.execute("SELECT json_valid(?)", [raw.decode()]).fetchone() == (1,)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(TESTS))
def test_mutants_of_real_frames(real: list[bytes], rounds: Rounds, part: int) -> None:
    seen: Counter[str] = Counter()
    for _, chance in rounds(MUTANTS // BATCH // TESTS):
        for _ in range(BATCH):
            data = mutant(chance, real)
            try:
                check(data, seen)
            except BaseException:
                print("the mutant:", data)
                raise
    print(f"{rounds.last * BATCH} mutants: {dict(seen)}")
    few = rounds.last * BATCH / 1000
    assert min(seen[one] for one in ("Malformed", "Notification", "Request", "Response")) > few
    assert min(seen[one] for one in ("agent_message", "thought", "tool_call", "tool_result", "usage")) > few
