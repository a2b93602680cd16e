"""Chunks are recognised by their shape; what comes of them is what parsing their lines gives."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agh.core.acp.chunks import MAX_CHUNK, ChunkParser, Chunks, shape_of
from agh.core.acp.frames import Frame, Notification, Splitter, parse
from agh.core.acp.updates import event_of, plain_chunk, update_text
from agh.core.events import Draft, draft_of

TURN, AT = "turn-1", "2026-01-01T00:00:00.000Z"


def line(text: str, kind: str = "agent_message_chunk", **more: Any) -> bytes:
    update = {"sessionUpdate": kind, "content": {"type": "text", "text": text}, **more}
    params = {"sessionId": "own", "update": update}
    return orjson.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params})


def flat(frames: list[Frame]) -> list[Frame]:
    """Return the frames, with the lines of chunks parsed."""
    return [
        single for frame in frames for single in (frame.parsed() if isinstance(frame, Chunks) else [frame])
    ]


def recorded(frame: Notification) -> Draft:
    """Return the event of a chunk that was parsed."""
    chunk = plain_chunk(frame, "own")
    assert chunk is not None
    event_type, fields, update = chunk
    assert (event_type, fields) == event_of(update)
    return draft_of(event_type, TURN, "own", AT, fields, update_text(frame.raw, update))


def splitter() -> Splitter:
    splitter = Splitter()
    splitter.parse_lines = ChunkParser().parse
    return splitter


def check(data: bytes) -> list[Chunks]:
    frames = splitter().feed(data)
    assert flat(frames) == Splitter().feed(data)
    groups = [frame for frame in frames if isinstance(frame, Chunks)]
    for chunks in groups:
        notifications = [frame for frame in map(parse, chunks.lines) if isinstance(frame, Notification)]
        assert list(chunks.drafts(TURN, AT)) == [recorded(frame) for frame in notifications]
        assert chunks.texts == [recorded_text(frame) for frame in notifications]
    return groups


def recorded_text(frame: Notification) -> Any:
    return orjson.loads(recorded(frame).content)["text"]


def test_the_chunks_of_a_message_are_together() -> None:
    texts = ["first", " second", "text", 'a "quote"\n', "\\", "é\u2028", "\0"]
    (chunks,) = check(b"".join(line(text, messageId="m") + b"\n" for text in texts))
    assert chunks.texts == texts
    assert chunks.shape.session == "own"


@pytest.mark.parametrize(("lines", "more", "count"), [(-1, 0, 1), (0, 1, 1), (1, 0, 1), (1, 1, 2), (3, 1, 3)])
def test_chunks_are_split_where_so_many_bytes_are_complete(lines: int, more: int, count: int) -> None:
    texts = ["a", "b", "c"]
    (chunks,) = check(b"".join(line(text) + b"\n" for text in texts))
    first, others = chunks.split(lines * len(line("a")) + more)
    assert (first.texts, others.texts) == (texts[:count], texts[count:])
    assert first.lines + others.lines == chunks.lines
    assert first.sent + others.sent == chunks.sent


def test_another_message_has_another_shape() -> None:
    lines = [line("a"), line("b"), line("c", "agent_thought_chunk"), line("d", messageId="m"), line("e")]
    groups = check(b"\n".join(lines) + b"\n")
    assert [chunks.texts for chunks in groups] == [["a", "b"], ["c"], ["d"], ["e"]]


@pytest.mark.parametrize(
    "odd",
    [
        line(""),
        line("x").replace(b'"x"', b'"x\\"'),
        line("x").replace(b'"x"', b'"x","text":"y"'),
        line("x").replace(b'"x"', b'"x"},"_meta":{"a":"y"'),
        line("x").replace(b'"x"', b'"\\ud800"'),
        line("x").replace(b'"x"', b'"\xff"'),
        line("x").replace(b'"x"', b'"a\tb"'),
        line("x").replace(b'"x"', b'"\\q"'),
        line("x")[:-1],
        line("x" * MAX_CHUNK),
        b"",
        b" \t",
        b"not a message",
    ],
)
def test_a_line_that_only_looks_like_a_chunk_is_parsed(odd: bytes) -> None:
    groups = check(b"\n".join([line("before"), odd, line("after"), b""]))
    assert odd not in [sent for chunks in groups for sent in chunks.lines] or b'"y"' in odd
    assert groups[0].texts == ["before"]


@pytest.mark.parametrize(
    "frame",
    [
        line("text"),
        line("content", messageId="content"),
        line("sessionUpdate"),
        line("own"),
        line("the-text-of-this-chunk"),
        line("x").replace(b'"text":"x"', b'"text":"x","text":"x"'),
        line("x").replace(b'"text":"x"', b'"text":"y","text":"x"'),
    ],
)
def test_a_text_that_is_elsewhere_in_the_line_too(frame: bytes) -> None:
    check(b"\n".join([frame, line("after"), frame, frame, b""]))
    shape = shape_of(parse(frame))
    assert shape is None or plain_chunk(parse(shape.before + b"!" + shape.after), "own")[1]["text"] == "!"  # type: ignore[arg-type, index]


json_texts = st.text(st.characters(exclude_categories=["Cs"]))


@given(
    st.lists(st.tuples(json_texts, st.sampled_from(["agent_message_chunk", "agent_thought_chunk"]))),
    st.booleans(),
    st.integers(1, 400),
)
def test_whatever_the_texts_and_the_pieces_are(
    chunks: list[tuple[str, str]], is_ascii: bool, size: int
) -> None:
    lines = [json.dumps(orjson.loads(line(*chunk)), ensure_ascii=is_ascii).encode() for chunk in chunks]
    data = b"".join(text + b"\n" for text in lines)
    check(data)
    whole, pieces = splitter(), splitter()
    parts = [pieces.feed(data[start : start + size]) for start in range(0, len(data), size)]
    assert flat([frame for part in parts for frame in part]) == flat(whole.feed(data))
