"""What a replay makes of rows, without a process."""

from __future__ import annotations

from typing import Any

from agh_acp.capabilities import Client
from agh_acp.replay import replay
from agh_acp.updates import updates_of

from agh.core.events import MARKER_CREATED, Row


def rows(*events: tuple[str, dict[str, Any]]) -> list[Row]:
    import orjson

    return [
        Row(number, "turn-1", type, "echo", orjson.dumps(content).decode(), "2026-01-01T00:00:00.000Z")
        for number, (type, content) in enumerate(events, 1)
    ]


def chunk(text: str, message_id: str = "m") -> tuple[str, dict[str, Any]]:
    raw = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    return "agent_message", {"text": text, "message_id": message_id, "raw": raw | {"messageId": message_id}}


def texts(updates: list[dict[str, Any]]) -> list[str]:
    return [update["content"]["text"] for update in updates]


def test_chunks_of_a_message_are_joined_and_those_of_two_are_not() -> None:
    assert texts(replay(rows(chunk("a "), chunk("b"), chunk("c", "other")), Client())) == ["a b", "c"]


def test_a_notice_amid_a_message_splits_nothing() -> None:
    warning = (MARKER_CREATED, {"kind": "session_stalled", "severity": "warning", "summary": "it is silent"})
    updates = replay(rows(chunk("a "), warning, chunk("b")), Client(notices=True))
    assert texts(updates) == ["a b", "[agh] it is silent\n"]


def test_a_tool_call_is_shown_once_with_its_final_state() -> None:
    start = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Read", "status": "pending"}
    end = {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed", "rawOutput": 1}
    events = rows(
        ("tool_call", {"tool_call_id": "t", "raw": start}),
        chunk("meanwhile"),
        ("tool_result", {"tool_call_id": "t", "raw": end}),
    )
    call, message = replay(events, Client())
    assert call == {**start, "status": "completed", "rawOutput": 1}
    assert message["content"]["text"] == "meanwhile"


def test_a_tool_call_that_nobody_saw_finish_has_failed() -> None:
    lost = {
        "tool_call_id": "t",
        "tool_error": True,
        "outcome": "unknown",
        "tool_result": {"error": "unknown"},
    }
    (call,) = replay(
        rows(("tool_call", {"tool_call_id": "t", "title": "Read"}), ("tool_result", lost)), Client()
    )
    assert (call["sessionUpdate"], call["title"], call["status"]) == ("tool_call", "Read", "failed")


def test_a_plan_shows_as_it_last_was() -> None:
    plans = [{"sessionUpdate": "plan", "entries": [{"content": text}]} for text in ("first", "last")]
    updates = replay(rows(*(("plan", {"raw": plan}) for plan in plans)), Client())
    assert updates == [plans[1]]


def test_only_the_last_state_of_the_session_counts() -> None:
    usages = [{"sessionUpdate": "usage_update", "used": used, "size": 10} for used in (1, 2)]
    events = rows(*(("usage", {"raw": usage}) for usage in usages), chunk("a"))
    assert replay(events, Client())[-1] == usages[1]


def test_a_client_gets_no_updates_that_it_cannot_read() -> None:
    (row,) = rows(("system", {"raw": {"sessionUpdate": "compaction_update", "status": "completed"}}))
    assert updates_of(row, Client()) == []
    assert updates_of(row, Client(compactions=True)) == [
        {"sessionUpdate": "compaction_update", "status": "completed"}
    ]


def test_an_update_that_nobody_knows_passes_unchanged() -> None:
    strange = {"sessionUpdate": "_vendor_thing", "deep": {"a": [1, None]}}
    (row,) = rows(("system", {"title": "_vendor_thing", "raw": strange}))
    assert updates_of(row, Client()) == [strange]
    assert replay([row], Client()) == [strange]


def test_a_terminal_of_agh_becomes_text() -> None:
    raw = {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"}
    raw |= {"content": [{"type": "terminal", "terminalId": "term-1"}]}
    (row,) = rows(("tool_result", {"tool_call_id": "t", "raw": raw, "tool_result": {"stdout": "printed"}}))
    (update,) = updates_of(row, Client())
    assert update["content"] == [{"type": "content", "content": {"type": "text", "text": "printed"}}]
