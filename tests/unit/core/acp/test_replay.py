"""What an agent replays becomes events: turns, whole prompts, tool calls with their results."""

from __future__ import annotations

from typing import Any

import orjson

from agh.core.acp.long_text import LONG
from agh.core.acp.replay import Replay
from agh.core.exchange import Record, TableRow, check_row

AT = "2026-11-17T10:00:00.000Z"
Update = dict[str, Any]


def chunk(kind: str, text: str, message_id: str | None = None) -> Update:
    update: Update = {"sessionUpdate": f"{kind}_chunk", "content": {"type": "text", "text": text}}
    return update | ({"messageId": message_id} if message_id else {})


def records_of(*updates: Update) -> list[Record]:
    replay = Replay("agent", "own-id", AT)
    records = [record for update in updates for record in replay.add(update, orjson.dumps(update))]
    records += replay.finish()
    for number, record in enumerate((row for row in records if not isinstance(row, TableRow)), 1):
        assert check_row(record).sequence == number
        assert record.timestamp == AT
    return records


def events_of(*updates: Update) -> list[tuple[str, str, dict[str, Any]]]:
    rows = [record for record in records_of(*updates) if not isinstance(record, TableRow)]
    return [(row.turn_id, row.type, orjson.loads(row.content)) for row in rows]


def outline(*updates: Update) -> list[tuple[str, str]]:
    return [(turn_id.removeprefix("turn-00000"), type) for turn_id, type, _ in events_of(*updates)]


def test_a_prompt_in_chunks_is_one_message() -> None:
    events = events_of(
        chunk("user_message", "hel", "m1"), chunk("user_message", "lo", "m1"), chunk("agent_message", "hi")
    )
    assert [(type, content.get("text")) for _, type, content in events] == [
        ("user_message", "hello"),
        ("agent_message", "hi"),
        ("done", None),
    ]
    assert events[0][2]["message_id"] == "m1"


def test_each_prompt_starts_a_turn_and_ends_the_one_before() -> None:
    updates = [
        chunk("user_message", "a", "m1"),
        chunk("user_message", "b", "m2"),
        chunk("agent_message", "c"),
    ]
    assert outline(*updates) == [
        ("1", "user_message"),
        ("1", "done"),
        ("2", "user_message"),
        ("2", "agent_message"),
        ("2", "done"),
    ]


def test_a_last_prompt_without_an_answer_stays_open() -> None:
    assert outline(chunk("user_message", "a")) == [("1", "user_message")]


def test_a_replay_without_prompts_is_one_turn() -> None:
    assert outline(chunk("agent_message", "a"), chunk("agent_message", "b")) == [
        ("1", "agent_message"),
        ("1", "agent_message"),
        ("1", "done"),
    ]


def test_what_is_not_text_in_a_prompt_is_an_attachment() -> None:
    picture = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    _, _, content = events_of(
        chunk("user_message", "look"), {"sessionUpdate": "user_message_chunk", "content": picture}
    )[0]
    assert (content["text"], content["attachments"]) == ("look", [picture])


def test_a_tool_call_that_comes_finished_has_a_call_and_a_result() -> None:
    call = {
        "sessionUpdate": "tool_call",
        "toolCallId": "t1",
        "title": "grep",
        "kind": "search",
        "status": "completed",
        "rawInput": {"pattern": "x"},
        "content": [{"type": "content", "content": {"type": "text", "text": "found"}}],
    }
    events = events_of(chunk("user_message", "go"), call, chunk("agent_message", "ok"))
    assert [type for _, type, _ in events] == [
        "user_message", "tool_call", "tool_result", "agent_message", "done"
    ]  # fmt: skip
    assert events[1][2]["tool_input"] == {"pattern": "x"}
    assert events[2][2]["tool_result"]["content"] == "found"


def test_a_tool_call_in_pieces_has_one_result() -> None:
    start = {"sessionUpdate": "tool_call", "toolCallId": "t1", "title": "make", "status": "pending"}
    end = {"sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "failed"}
    types = [type for _, type, _ in events_of(chunk("user_message", "go"), start, end)]
    assert types == ["user_message", "tool_call", "tool_result"]


def test_a_tool_call_without_an_end_is_closed_with_its_turn() -> None:
    start = {"sessionUpdate": "tool_call", "toolCallId": "t1", "title": "make", "status": "pending"}
    events = events_of(chunk("user_message", "go"), start, chunk("user_message", "and?", "m2"))
    assert [type for _, type, _ in events] == [
        "user_message", "tool_call", "tool_result", "done", "user_message"
    ]  # fmt: skip
    assert events[2][2]["outcome"] == "unknown"


def test_the_last_usage_is_that_of_the_last_turn() -> None:
    usage = [
        {
            "sessionUpdate": "usage_update",
            "used": used,
            "size": 100,
            "cost": {"amount": used, "currency": "USD"},
        }
        for used in (1, 7)
    ]
    *_, table = records_of(usage[0], chunk("user_message", "a"), chunk("agent_message", "b"), usage[1])
    assert isinstance(table, TableRow)
    assert (table.row["turn_id"], table.row["context_used"], table.row["cost_amount"]) == (
        "turn-000001",
        7,
        7,
    )


def test_what_is_not_history_is_left_out() -> None:
    others = [
        {"sessionUpdate": kind}
        for kind in ("available_commands_update", "current_mode_update", "config_option_update", "unheard_of")
    ]
    assert records_of(*others) == []
    assert outline(chunk("user_message", "a"), *others, chunk("user_message", "b")) == [("1", "user_message")]


def test_a_compaction_is_marked_once() -> None:
    compaction = {"sessionUpdate": "compaction_update", "compactionId": "c1", "status": "completed"}
    events = events_of(chunk("user_message", "a"), compaction, compaction, chunk("agent_message", "b"))
    assert [type for _, type, _ in events].count("transcript_marker.created") == 1


def test_the_agents_title_is_taken() -> None:
    replay = Replay("agent", "own-id", AT)
    update = {"sessionUpdate": "session_info_update", "title": "Fix the login"}
    assert list(replay.add(update, b"{}")) == []
    assert replay.title == "Fix the login"


def test_a_very_long_answer_is_kept_whole() -> None:
    text = "x" * (LONG + 1)
    assert any(content.get("text") == text for _, _, content in events_of(chunk("agent_message", text)))
