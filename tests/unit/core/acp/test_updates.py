"""What an agent's update becomes: every kind of ACP update, and those nobody knows."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agh.core.acp.frames import Malformed, Notification, parse
from agh.core.acp.long_text import LONG
from agh.core.acp.updates import (
    add_usage,
    context_usage,
    event_of,
    request_usage,
    token_usage,
    update_text,
)
from agh.core.events import TYPES, draft, draft_of


def chunk(kind: str, text: str = "hello", **more: Any) -> dict[str, Any]:
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}, **more}


def started(**more: Any) -> dict[str, Any]:
    return {"sessionUpdate": "tool_call", "toolCallId": "call-1", **more}


def tool(**more: Any) -> dict[str, Any]:
    return {"sessionUpdate": "tool_call_update", "toolCallId": "call-1", **more}


KINDS = [
    (chunk("agent_message_chunk"), "agent_message"),
    (chunk("agent_thought_chunk"), "thought"),
    (chunk("user_message_chunk"), "system"),
    (started(title="Read", kind="read", status="pending"), "tool_call"),
    (started(title="Read"), "tool_call"),
    (started(title="Read", status="completed"), "tool_result"),
    (tool(status="in_progress"), "tool_call"),
    (tool(status=None), "tool_call"),
    (tool(status="completed"), "tool_result"),
    (tool(status="failed"), "tool_result"),
    ({"sessionUpdate": "plan", "entries": []}, "plan"),
    ({"sessionUpdate": "usage_update", "used": 1, "size": 2}, "usage"),
    ({"sessionUpdate": "available_commands_update", "availableCommands": []}, "system"),
    ({"sessionUpdate": "current_mode_update", "currentModeId": "code"}, "system"),
    ({"sessionUpdate": "config_option_update", "configOptions": []}, "system"),
    ({"sessionUpdate": "session_info_update", "title": "A title"}, "system"),
    ({"sessionUpdate": "from_the_future", "x": 1}, "system"),
    ({"sessionUpdate": None}, "system"),
    ({"sessionUpdate": 5}, "system"),
    ({}, "system"),
]


@pytest.mark.parametrize(("update", "type"), KINDS, ids=lambda value: str(value)[:60])
def test_every_kind_has_its_type(update: dict[str, Any], type: str) -> None:
    event, fields = event_of(update)
    assert event == type
    assert event in TYPES
    assert "raw" not in fields
    draft(event, **fields)


def test_chunks_keep_their_text_and_their_message() -> None:
    assert event_of(chunk("agent_message_chunk", " a\n", messageId="m1"))[1] == {
        "text": " a\n",
        "message_id": "m1",
    }
    assert event_of(chunk("agent_thought_chunk"))[1] == {"text": "hello"}
    assert event_of(chunk("agent_message_chunk", messageId=5))[1] == {"text": "hello"}


def test_a_chunk_that_is_no_text_is_named() -> None:
    picture = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    fields = event_of({"sessionUpdate": "agent_message_chunk", "content": picture})[1]
    assert fields == {"text": "", "title": "image content"}
    assert event_of({"sessionUpdate": "agent_message_chunk"})[1]["text"] == ""


def test_what_is_not_chat_is_named_by_its_title() -> None:
    assert (
        event_of({"sessionUpdate": "session_info_update", "title": "T"})[1]["title"]
        == "session_info_update: T"
    )
    assert event_of({"sessionUpdate": "current_mode_update", "currentModeId": "code"})[1] == {
        "title": "current_mode_update: code"
    }
    assert event_of({"sessionUpdate": "from_the_future"})[1] == {"title": "from_the_future"}


def test_a_tool_call_keeps_what_it_was_given() -> None:
    fields = event_of(started(title="Read a.py", kind="read", rawInput={"path": "a.py"}))[1]
    assert fields == {
        "tool_call_id": "call-1",
        "title": "Read a.py",
        "tool_name": "read",
        "tool_input": {"path": "a.py"},
    }


def test_usage() -> None:
    update = {"used": 10, "size": 200, "cost": {"amount": 0.5, "currency": "USD"}}
    assert context_usage(update) == {
        "context_used": 10,
        "context_size": 200,
        "cost_amount": 0.5,
        "cost_currency": "USD",
    }
    assert set(context_usage({"used": True, "size": "x", "cost": 5}).values()) == {None}
    assert token_usage(None) is None
    assert token_usage([1]) is None
    usage = token_usage({"inputTokens": 1, "outputTokens": 2, "totalTokens": 3, "thoughtTokens": "x"})
    assert usage == {
        "input_tokens": 1,
        "output_tokens": 2,
        "thought_tokens": None,
        "cached_read_tokens": None,
        "cached_write_tokens": None,
        "total_tokens": 3,
    }


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=12,
)
FIELDS = (
    *("content", "title", "toolCallId", "status", "kind", "rawInput", "rawOutput", "locations", "_meta"),
    *("cost", "used", "messageId", "entries", "currentModeId"),
)
updates = st.builds(
    lambda kind, rest: {"sessionUpdate": kind, **rest},
    st.sampled_from([update.get("sessionUpdate") for update, _ in KINDS]),
    st.dictionaries(
        st.sampled_from(FIELDS), json_values | st.sampled_from(["completed", "failed"]), max_size=6
    ),
)


@settings(deadline=None)
@given(updates)
def test_no_update_can_do_harm(update: dict[str, Any]) -> None:
    type, fields = event_of(update)
    assert type in TYPES
    orjson.loads(draft(type, **fields).content)


def frame(update: str, *, before: str = '"sessionId":"s",', after: str = "") -> bytes:
    line = f'{{"jsonrpc":"2.0","method":"session/update","params":{{{before}"update":{update}{after}}}}}'
    return line.encode()


ODD = '{"sessionUpdate" : "plan", "n": 1.50, "big": 12345678901234567890, "s": "\\u00e9\\/ }}"}'


@pytest.mark.parametrize(
    "text",
    [
        '{"sessionUpdate":"plan"}',
        ODD,
        '{"update":{"update":{}},"sessionUpdate":"plan"}',
        '{"sessionUpdate":"x","text":"\\"update\\":{}}"}',
        "{}",
    ],
)
@pytest.mark.parametrize("end", ["", "\r", "  "])
def test_raw_is_the_text_of_the_update_as_it_came(text: str, end: str) -> None:
    assert update_text(frame(text) + end.encode(), orjson.loads(text)) == text.encode()


@settings(deadline=None)
@given(updates, st.booleans())
def test_raw_is_always_json_of_the_same_value(update: dict[str, Any], last: bool) -> None:
    text = orjson.dumps(update).decode()
    line = frame(text, before="" if last else '"sessionId":"s",', after=',"sessionId":"s"' if last else "")
    raw = orjson.loads(update_text(line, orjson.loads(text)))
    assert raw == update


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ',"sessionId":"s"'),
        ('"sessionId":"s",', ',"_meta":{"a":{}}'),
        ('"_meta":{"update":{}},', ""),
    ],
)
def test_raw_is_the_update_wherever_it_stands(before: str, after: str) -> None:
    assert update_text(frame(ODD, before=before, after=after), orjson.loads(ODD)) == ODD.encode()


def test_raw_is_the_update_with_white_space_around() -> None:
    line = f'{{ "method" : "session/update", "params" : {{ "sessionId" : "s", "update" : {ODD} }} }}'
    assert update_text(line.encode(), orjson.loads(ODD)) == ODD.encode()


@pytest.mark.parametrize("size", [10, LONG])
@pytest.mark.parametrize(
    "line",
    [
        '{"params":{"update":%s,"sessionId":"s"},"method":"session/update"}',
        '{"params":{"update":{"old":[{}]}},"params":{"sessionId":"s","update":%s}}',
        '{"params":{"\\u0075pdate" : %s ,"x":"\\\\"},"id\\"":[1,{"params":2}]}',
        '{"x":[{"params":{"update":1}},"params"],"params":{"update":1,"update":%s}}',
        '{"x":"{\\"params\\":","n":-1.5e3,"t":true , "params":{"update":%s}}\n',
    ],
)
def test_raw_of_a_long_frame_is_found_by_reading_it(line: str, size: int) -> None:
    text = ODD[:-1] + ', "t": "' + r"\\\" {[" * size + '"}'
    assert bytes(update_text((line % text).encode(), orjson.loads(text))) == text.encode()


def test_usage_that_comes_with_a_chunk() -> None:
    """As Qwen tells it: one empty chunk per model request."""
    usage = {"inputTokens": 11, "outputTokens": 2, "totalTokens": 13, "cachedReadTokens": 5}
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": ""}}
    found = request_usage({**chunk, "_meta": {"usage": usage, "durationMs": 7}})
    assert found is not None
    assert (found["input_tokens"], found["output_tokens"], found["total_tokens"]) == (11, 2, 13)
    assert (found["cached_read_tokens"], found["thought_tokens"]) == (5, None)
    for nothing in (chunk, {**chunk, "_meta": None}, {**chunk, "_meta": {"usage": "much"}}):
        assert request_usage(nothing) is None


def test_usage_adds_up_and_what_nobody_knows_stays_unknown() -> None:
    first = {"input_tokens": 11, "output_tokens": None, "thought_tokens": None}
    assert add_usage({}, first) == first
    assert add_usage(first, {"input_tokens": 4, "output_tokens": 2}) == {
        "input_tokens": 15,
        "output_tokens": 2,
        "thought_tokens": None,
    }


@pytest.mark.parametrize(
    "number", [-1, -0.5, 10**12 + 1, 2**63, 2**64 - 1, 1e308, float("inf"), float("nan"), True]
)
def test_what_no_session_can_have_used_is_unknown(number: float) -> None:
    assert set(context_usage({"used": number, "size": number, "cost": {"amount": number}}).values()) == {None}
    assert set((token_usage({"inputTokens": number, "totalTokens": number}) or {}).values()) == {None}


def test_sums_stay_in_bounds() -> None:
    most = {"input_tokens": 10**12}
    assert add_usage(add_usage(most, most), most) == most


@pytest.mark.parametrize("text", ["x" * 70_000, "x" * 70_000 + "😀", '"\\' * 40_000])
def test_an_update_keeps_its_text_whole(text: str) -> None:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    params = {"filler": "y" * (1 << 20), "update": update, "sessionId": "s"}
    frame = parse(orjson.dumps({"params": params, "method": "session/update"}))
    assert isinstance(frame, Notification) and isinstance(frame.params, dict)
    type, fields = event_of(frame.params["update"])
    raw = update_text(frame.raw, frame.params["update"])
    content = orjson.loads(draft_of(type, "t", None, "at", fields, raw).whole())
    assert content["text"] == text and content["raw"] == update


def test_a_long_line_that_cannot_be_repaired_is_malformed() -> None:
    assert isinstance(parse(b'{"a":"' + b"x" * (1 << 20) + b'\x01"}'), Malformed)
