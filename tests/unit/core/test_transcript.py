"""The same rows give the same conversation, and nothing that was said is lost or invented."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agh.core.events import TYPES, Draft, Row, draft, marker
from agh.core.transcript import Assembler, count_messages, transcript
from tests.support.build import calls, conversation, finishes, returns, rows, says, thinks, user

LAW = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
TURNS = ("", "turn-1", "turn-2", "turn-3")

# Each turn has a letter of its own, so that a text tells where it came from.
LETTERS = dict(zip(TURNS, "abcd", strict=True))


def _events() -> Iterator[Draft]:
    """Yield every kind of event in every turn; chunks and tools are likelier than the rest."""
    at = "2026-04-16T01:00:00.000Z"
    for turn, letter in LETTERS.items():
        for text, id, kind in product(
            ["", " ", "\n", letter, f"{letter} 🦀{letter}"], [None, "m1", "m2"], ["agent_message", "thought"]
        ):
            yield draft(kind, turn_id=turn, at=at, text=text, message_id=id)
        for kind, call, name, title in product(
            ["tool_call", "tool_result"], ["call-1", "call-2"], [None, "Read", "Bash"], [None, "x"]
        ):
            yield draft(
                kind, turn_id=turn, at=at, tool_call_id=call, tool_name=name, title=title, tool_input=title
            )
        for kind in TYPES:
            fields = {"tool_call_id": "call-3"} if kind.startswith("tool") else {"text": letter}
            yield draft(kind, turn_id=turn, at=at, **fields)
        yield draft("transcript_marker.redacted", turn_id=turn, at=at, marker_id="evt-000001")


logs = st.lists(st.sampled_from(list(_events())), max_size=25).map(rows)


# Chunks with and without ids, and a little else: most of them continue the answer before them.
streams = st.lists(
    st.builds(
        says,
        st.sampled_from(["a", "a", "a", ""]),
        st.sampled_from(["turn-1", "turn-1", "turn-1", "turn-2"]),
        message_id=st.sampled_from([None, "m1", "m2"]),
    )
    | st.sampled_from([thinks("a"), user("b"), finishes("turn-1"), marker("prompt_queued", "it waits")]),
    min_size=6,
    max_size=15,
).map(rows)


def _texts(log: list[Row], kind: str, turn: str | None = None) -> str:
    return "".join(row.parsed()["text"] for row in log if row.type == kind and turn in (None, row.turn_id))


def _said(messages: list[dict[str, Any]], part: str) -> str:
    return "".join(message.get(part, "") for message in messages if message["role"] == "assistant")


@given(logs, st.randoms(use_true_random=False))
@LAW
def test_the_same_rows_in_any_order_give_the_same_messages(log: list[Row], chance: random.Random) -> None:
    expected = transcript(log)
    assert json.dumps(transcript(log)) == json.dumps(expected)
    shuffled = list(log)
    chance.shuffle(shuffled)
    assert transcript(iter(shuffled)) == expected


@given(logs)
@LAW
def test_messages_are_counted_without_making_them(log: list[Row]) -> None:
    assert count_messages(log) == sum(message["role"] != "marker" for message in transcript(log))


@given(streams)
@LAW
def test_messages_of_a_stream_are_counted_too(log: list[Row]) -> None:
    assert count_messages(log) == sum(message["role"] != "marker" for message in transcript(log))


def test_odd_message_ids_are_counted() -> None:
    """An id is not always a plain string, and what the agent sent beside it may look like one."""
    raw = {"message_id": "m1", "text": '"message_id":"m2"'}
    for ids in product([None, "", "m1", 'm"1', 'm"2', "m\\", 5, 6, ["m1"]], repeat=3):
        plain, with_raw, raw_first = (
            [says("a", at="now", **before, message_id=id, **after) for id in ids]
            for before, after in (({}, {}), ({}, {"raw": raw}), ({"first": raw}, {}))
        )
        for drafts in (plain, with_raw, raw_first, [with_raw[0], plain[1], raw_first[2]]):
            log = rows([*drafts, drafts[0], finishes("turn-1"), drafts[1]])
            assert count_messages(log) == len(transcript(log)), drafts


def test_few_chunks_are_parsed_to_be_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    log = rows([user("hello"), *(says(f"chunk {number}", message_id="m1") for number in range(1000))])
    parsed: list[Row] = []
    parse = Row.parsed
    monkeypatch.setattr(Row, "parsed", lambda row: parsed.append(row) or parse(row))
    assert count_messages(log) == 2
    assert len(parsed) < 5


@given(logs)
@LAW
def test_rows_are_not_changed(log: list[Row]) -> None:
    before = copy.deepcopy(log)
    transcript(log)
    assert log == before


@given(logs)
@LAW
def test_every_chunk_is_kept_in_order(log: list[Row]) -> None:
    messages = transcript(log)
    assert _said(messages, "content") == _texts(log, "agent_message")
    assert _said(messages, "thinking") == _texts(log, "thought")
    assert all(
        message.get("content") or message.get("thinking")
        for message in messages
        if message["role"] == "assistant"
    )


@given(logs)
@LAW
def test_a_turn_keeps_its_text_to_itself(log: list[Row]) -> None:
    answers = [message for message in transcript(log) if message["role"] == "assistant"]
    for turn, own in LETTERS.items():
        mine = [answer for answer in answers if own in answer["content"] + answer.get("thinking", "")]
        kept = "".join(message["content"] for message in mine)
        assert kept.count(own) == _texts(log, "agent_message", turn).count(own)
        assert not (set(LETTERS.values()) - {own}) & set(
            kept + "".join(message.get("thinking", "") for message in mine)
        )


@given(logs)
@LAW
def test_tools_are_stitched_within_their_turn_only(log: list[Row]) -> None:
    messages = transcript(log)
    for role in ("tool_call", "tool_result"):
        cards = [message for message in messages if message["role"] == role]
        first: dict[tuple[str, str], str] = {}
        last: dict[tuple[str, str], dict[str, Any]] = {}
        for row in log:
            if row.type == role:
                content = row.parsed()
                key = (row.turn_id, content["tool_call_id"])
                first.setdefault(key, row.id)
                fields = {
                    name: content[name] for name in ("tool_name", "title", "tool_input") if name in content
                }
                last[key] = {**last.get(key, {}), **fields}
        assert [card["id"] for card in cards] == list(first.values())
        for card, key in zip(cards, first, strict=True):
            assert card["tool_call_id"] == key[1]
            assert {name: card.get(name) for name in last[key]} == last[key]


@given(logs)
@LAW
def test_every_message_has_the_id_and_time_of_a_row_of_its_kind(log: list[Row]) -> None:
    kinds = {
        "user": {"user_message"},
        "assistant": {"agent_message", "thought"},
        "tool_call": {"tool_call"},
        "tool_result": {"tool_result"},
        "marker": {"transcript_marker.created", "transcript_marker.redacted"},
    }
    by_id = {row.id: row for row in log}
    messages = transcript(log)
    assert len({message["id"] for message in messages}) == len(messages)
    for message in messages:
        assert by_id[message["id"]].type in kinds[message["role"]]
        assert message["timestamp"] == by_id[message["id"]].timestamp


@given(logs)
@LAW
def test_thinking_is_complete_unless_the_log_ends_in_it(log: list[Row]) -> None:
    messages = transcript([*log, *rows([finishes()], len(log) + 1)])
    assert all(message["thinking_complete"] for message in messages if "thinking" in message)


@given(logs)
@LAW
def test_feeding_row_by_row_gives_the_same(log: list[Row]) -> None:
    assembler = Assembler()
    for row in log:
        seen = [message["role"] for message in assembler.messages]
        assembler.feed(row)
        assert [message["role"] for message in assembler.messages][: len(seen)] == seen
    assert assembler.messages == transcript(log)


# A transcript as scripts read it. Its ids stand for those of the two rows.
EXAMPLE = """
{
  "messages": [
    {
      "id": "evt-user",
      "role": "user",
      "content": "Explain the stop path.",
      "timestamp": "2026-04-16T01:00:00Z"
    },
    {
      "id": "evt-agent",
      "role": "assistant",
      "content": "AGH first marks the session stopping...",
      "thinking": "Need the lifecycle code path.",
      "thinking_complete": true,
      "timestamp": "2026-04-16T01:00:02Z"
    }
  ]
}
"""


def test_the_example_is_reproduced() -> None:
    log = rows(
        [
            user("Explain the stop path.", at="2026-04-16T01:00:00Z"),
            thinks("Need the lifecycle ", at="2026-04-16T01:00:01Z"),
            thinks("code path.", at="2026-04-16T01:00:01Z"),
            says("AGH first marks ", at="2026-04-16T01:00:02Z"),
            draft("usage", turn_id="turn-1", at="2026-04-16T01:00:02Z", usage={"input_tokens": 1}),
            says("the session stopping...", at="2026-04-16T01:00:03Z"),
            finishes(at="2026-04-16T01:00:04Z"),
        ]
    )
    expected = EXAMPLE.replace("evt-user", "evt-000001").replace("evt-agent", "evt-000004")
    text = json.dumps({"messages": transcript(log)}, indent=2)
    assert text == expected.strip()


def test_a_whole_turn() -> None:
    log = rows(conversation())
    assert [(message["id"], message["role"]) for message in transcript(log)] == [
        ("evt-000001", "user"),
        ("evt-000002", "assistant"),
        ("evt-000004", "tool_call"),
        ("evt-000006", "tool_result"),
        ("evt-000007", "assistant"),
        ("evt-000009", "marker"),
    ]
    _, thought, call, result, answer, note = transcript(log)
    assert thought["thinking"] == "Need the lifecycle code path." and thought["content"] == ""
    assert call["tool_input"] == {"path": "session.go"}
    assert (result["tool_name"], result["title"]) == ("Read", "Read session.go")
    assert result["tool_result"] == {"content": "package session"} and result["tool_error"] is False
    assert answer["content"] == "AGH first marks the session stopping..."
    assert (note["kind"], note["summary"], note["severity"]) == ("context_reset", "the agent forgot", "info")


def test_the_same_call_id_in_two_turns_is_two_calls() -> None:
    log = rows(
        [calls("c", "Read"), returns("c"), calls("c", "Bash", turn="turn-2"), returns("c", turn="turn-2")]
    )
    assert [(message["role"], message["tool_name"]) for message in transcript(log)] == [
        ("tool_call", "Read"),
        ("tool_result", "Read"),
        ("tool_call", "Bash"),
        ("tool_result", "Bash"),
    ]


def test_an_update_completes_the_call_and_does_not_erase() -> None:
    log = rows(
        [
            calls("c", "Read", title="Read"),
            draft("tool_call", turn_id="turn-1", tool_call_id="c", title="Read x"),
        ]
    )
    (card,) = transcript(log)
    assert (card["tool_name"], card["title"]) == ("Read", "Read x")


def test_tools_without_an_id_stay_apart() -> None:
    log = rows(
        [draft("tool_call", turn_id="turn-1", title="a"), draft("tool_call", turn_id="turn-1", title="b")]
    )
    assert [(message["tool_call_id"], message["title"]) for message in transcript(log)] == [
        ("evt-000001", "a"),
        ("evt-000002", "b"),
    ]


def test_empty_chunks_are_dropped_and_white_space_is_kept() -> None:
    assert transcript(rows([says(""), thinks(""), draft("agent_message", turn_id="turn-1")])) == []
    (answer,) = transcript(rows([says(""), says("a"), says(""), says(" "), says("\n\n"), says("b")]))
    assert answer["content"] == "a \n\nb" and answer["id"] == "evt-000002"
    (blank,) = transcript(rows([says("  ")]))
    assert blank["content"] == "  "


def test_text_that_is_not_text_is_no_text() -> None:
    log = rows(
        [
            draft("agent_message", turn_id="turn-1", text=5),
            draft("user_message", turn_id="turn-1", text=["x"]),
        ]
    )
    assert [(message["role"], message["content"]) for message in transcript(log)] == [("user", "")]


@pytest.mark.parametrize("kind", ["plan", "done", "error", "session_stopped"])
def test_what_is_not_chat_only_ends_the_message(kind: str) -> None:
    log = rows([says("a"), draft(kind, turn_id="turn-1", text="not shown"), says("b")])
    assert [message["content"] for message in transcript(log)] == ["a", "b"]


@pytest.mark.parametrize("kind", ["usage", "runtime_progress", "runtime_warning", "permission", "system"])
def test_passing_news_does_not_cut_a_message(kind: str) -> None:
    log = rows([says("a"), draft(kind, turn_id="turn-1", text="not shown"), says("b")])
    assert [message["content"] for message in transcript(log)] == ["ab"]


def test_a_marker_does_not_cut_a_message() -> None:
    """The queue changes while the agent talks."""
    messages = transcript(rows([says("a"), marker("prompt_dropped", "the prompt was taken back"), says("b")]))
    assert [(message["role"], message.get("content")) for message in messages] == [
        ("assistant", "ab"),
        ("marker", None),
    ]


def test_thinking_is_open_until_something_follows() -> None:
    assert transcript(rows([thinks("hm")]))[0]["thinking_complete"] is False
    assert transcript(rows([thinks("hm"), says("a")]))[0]["thinking_complete"] is True
    assert transcript(rows([thinks("hm"), user("x", turn="turn-2")]))[0]["thinking_complete"] is True


def test_messages_with_different_ids_are_different_messages() -> None:
    log = rows(
        [says("a", message_id="m1"), says("b", message_id="m1"), says("c", message_id="m2"), says("d")]
    )
    assert [message["content"] for message in transcript(log)] == ["ab", "cd"]


def test_an_answer_that_began_without_an_id_takes_the_first_that_comes() -> None:
    log = rows([thinks("hm"), says("a", message_id="m1"), says("b", message_id="m2")])
    assert [message["content"] for message in transcript(log)] == ["a", "b"]


def test_a_redaction_takes_the_diagnostic_of_its_marker_away() -> None:
    log = rows(
        [
            marker("provider_failure", "key sk-1 refused", diagnostic="secret"),
            draft("transcript_marker.redacted", marker_id="evt-000001", summary="key refused"),
            draft(
                "transcript_marker.redacted", kind="provider_failure", summary="alone", marker_id="evt-000099"
            ),
        ]
    )
    first, second = transcript(log)
    assert "diagnostic" not in first
    assert (first["id"], first["summary"], first["redacted"]) == ("evt-000001", "key refused", True)
    assert (second["id"], second["summary"], second["redacted"]) == ("evt-000003", "alone", True)
