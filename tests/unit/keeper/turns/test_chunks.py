"""Chunks take a way of their own through the keeper; what is recorded of them is the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from agh import config
from agh.adapters import registry
from agh.core.acp.chunks import ChunkParser, Chunks
from agh.core.acp.frames import Frame
from agh.home import new_session_id
from agh.keeper.agent import incoming
from agh.keeper.session import Live, Turn
from agh.keeper.turns import chunks
from agh.store.create import create_session, first_meta, publish
from agh.store.writer import Writer

OWN = "session-of-the-agent"


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Live]]:
    """Return a function that makes a session in the middle of a turn, without an agent."""
    monkeypatch.setenv("AGH_HOME", str(tmp_path / "agh"))
    for module in ("agh.keeper.log", "agh.core.events"):
        monkeypatch.setattr(f"{module}.timestamp", lambda: "2026-01-01T00:00:00.000Z")
    sessions: list[Live] = []

    def start() -> Live:
        session_id = new_session_id()
        with create_session(session_id) as lock:
            metadata = first_meta(session_id, "echo", None, None, str(tmp_path), None)
            publish(lock, metadata)
        metadata["acp_session_id"], metadata["acp_session_ids"] = OWN, [OWN]
        settings = config.load(str(tmp_path))
        live = Live(lock.session, metadata, Writer(lock, "echo"), settings, registry.agent("echo"))
        live.ready, live.turns.current = True, Turn("turn-1", 1, 0)
        live.agent.connection = object()  # type: ignore[assignment]
        sessions.append(live)
        return live

    yield start
    for live in sessions:
        live.log.writer.close()
        live.log.writer.lock.release()


def chunk(text: Any, kind: Any = "agent_message_chunk", session: Any = OWN, **more: Any) -> bytes:
    update = {"sessionUpdate": kind, "content": {"type": "text", "text": text}, **more}
    params = {"sessionId": session, "update": update}
    return orjson.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params})


PLAIN = [
    chunk("hello "),
    chunk("wörld\n\u2028", messageId="m-1"),
    chunk("hm", "agent_thought_chunk"),
    chunk("ext", annotations={"unknown": 1}),
    chunk("x").replace(b":", b" : "),
    chunk("spaced").replace(b'"update":', b'"update": ') + b"\r",
    *(chunk(text, messageId="m-2") for text in ("hello ", "text", 'a "quote"\n', "\\", "\0", "\u2028", "é")),
    chunk("escaped", messageId="m-2").replace(b"escaped", b"\\u00e9\\/"),
]
OTHERS = [
    chunk(""),
    chunk(None),
    chunk("child", session="another"),
    chunk("whose", session=None),
    chunk("odd", ["agent_message_chunk"]),
    chunk("odd", "user_message_chunk"),
    chunk("used", _meta={"usage": {"inputTokens": 3, "outputTokens": 4}}),
    chunk("id", messageId=7),
    chunk("resource", content={"type": "resource_link", "uri": "file:///x", "text": "y"}),
    chunk("x", content="no object"),
    chunk("lone").replace(b"lone", b"\\ud800"),
    b'{"jsonrpc":"2.0","method":"session/update","params":[1]}',
    b'{"jsonrpc":"2.0","method":"session/updated","params":{"sessionId":"%s"}}' % OWN.encode(),
    b"not a message",
]


def feed(live: Live, lines: list[bytes]) -> None:
    incoming.take_frames(live, ChunkParser().parse(lines))


def leave_all(live: Live, turn: Turn, frames: list[Frame]) -> None:
    """Leave every chunk to the longer way."""


def state(live: Live) -> Any:
    columns = "sequence, turn_id, type, agent_name, content, timestamp"
    rows = live.log.db.execute(f"SELECT {columns} FROM events ORDER BY sequence").fetchall()
    turn = live.turns.current
    assert turn is not None
    noted = (turn.acted, turn.answered, turn.is_refused, turn.last_words, turn.bytes, turn.usage)
    return rows, noted, live.turns.bytes


@pytest.mark.parametrize("lines", [PLAIN, OTHERS, [*PLAIN, *OTHERS, *PLAIN], PLAIN[2:3], OTHERS[:1]])
def test_the_short_way_records_what_the_long_way_does(
    start: Callable[[], Live], monkeypatch: pytest.MonkeyPatch, lines: list[bytes]
) -> None:
    short, long = start(), start()
    feed(short, lines)
    monkeypatch.setattr(incoming, "take_chunks", leave_all)
    feed(long, lines)
    assert state(short) == state(long)
    assert state(short)[0], "something was recorded"


def test_plain_chunks_take_the_short_way(start: Callable[[], Live], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incoming, "_take", lambda live, frame: pytest.fail(f"the long way: {frame}"))
    monkeypatch.setattr(Live, "survive", lambda self, error, raw=None: pytest.fail(str(error)))
    live = start()
    feed(live, PLAIN)
    assert live.log.last_sequence == len(PLAIN)


def test_a_failure_on_the_short_way_loses_no_frame(
    start: Callable[[], Live], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise ValueError("no")

    monkeypatch.setattr(Chunks, "drafts", fail)
    live = start()
    feed(live, PLAIN[:3])
    types = [row[2] for row in state(live)[0]]
    assert [type for type in types if type != "runtime_warning"] == [
        "agent_message",
        "agent_message",
        "thought",
    ]


@pytest.mark.parametrize("reason", ["replaying", "history", "limit", "user message", "starting"])
def test_chunks_that_mean_more_are_left_alone(start: Callable[[], Live], reason: str) -> None:
    live = start()
    if reason == "replaying":
        live.agent.replaying = True
    elif reason == "history":
        live.turns.history = "what was said before"
    elif reason == "limit":
        live.turns.pause_after = ("max_bytes", "max_bytes")
    elif reason == "user message":
        live.agent.user_message = object()  # type: ignore[assignment]
    else:
        live.ready = False
    frames = ChunkParser().parse(PLAIN[:1])
    with live.log.batch():
        chunks.take_chunks(live, Turn("turn-1", 1, 0), frames)
    assert len(frames) == 1
