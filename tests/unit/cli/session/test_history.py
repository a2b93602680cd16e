from __future__ import annotations

import json
import os
import re
from typing import Any

import pytest

from tests.support.build import Home, conversation, draft, finishes, marker, says, user
from tests.support.output import message_of, sequences
from tests.support.program import Agh


def turns(agh: Agh, *args: object) -> list[dict[str, Any]]:
    document = json.loads(agh("session", "history", *args, "-o", "json").stdout)
    assert list(document) == ["turns"]
    listed: list[dict[str, Any]] = document["turns"]
    return listed


@pytest.fixture
def three(home: Home) -> str:
    """Return a turn that ended, one that failed, one that is open, and what belongs to none."""
    return home.session(
        [
            user("one", at="2026-04-16T01:00:01.000Z"),
            finishes(at="2026-04-16T01:00:02.000Z"),
            marker("context_reset", "forgot"),
            user("two", turn="turn-2", at="2026-04-16T01:00:03.000Z"),
            draft("error", turn_id="turn-2", error="broke", at="2026-04-16T01:00:04.000Z"),
            says("late news", at="2026-04-16T01:00:05.000Z"),
            user("three", turn="turn-3", at="2026-04-16T01:00:06.000Z"),
            draft("session_stopped", stop_reason="error"),
        ]
    ).name


def test_rows_grouped_by_turn(agh: Agh, three: str) -> None:
    history = turns(agh, three)
    assert [list(turn) for turn in history] == [
        ["turn_id", "started_at", "ended_at", "stop_reason", "events"]
    ] * 3
    assert [{key: turn[key] for key in list(turn)[:4]} for turn in history] == [
        {
            "turn_id": "turn-1",
            "started_at": "2026-04-16T01:00:01.000Z",
            "ended_at": "2026-04-16T01:00:02.000Z",
            "stop_reason": "end_turn",
        },
        {
            "turn_id": "turn-2",
            "started_at": "2026-04-16T01:00:03.000Z",
            "ended_at": "2026-04-16T01:00:04.000Z",
            "stop_reason": "error",
        },
        {
            "turn_id": "turn-3",
            "started_at": "2026-04-16T01:00:06.000Z",
            "ended_at": None,
            "stop_reason": None,
        },
    ]
    assert [[event["sequence"] for event in turn["events"]] for turn in history] == [[1, 2, 6], [4, 5], [7]]


def test_events_are_the_envelopes_of_the_log(agh: Agh, home: Home) -> None:
    name = home.session(conversation()).name
    lines = agh("session", "events", name, "--turn", "turn-1").stdout.splitlines()
    assert turns(agh, name)[0]["events"] == [json.loads(line) for line in lines]


def test_only_the_newest_turns(agh: Agh, three: str) -> None:
    assert [turn["turn_id"] for turn in turns(agh, three, "--last", "2")] == ["turn-2", "turn-3"]
    assert [turn["turn_id"] for turn in turns(agh, three, "--limit", "9")] == ["turn-1", "turn-2", "turn-3"]
    message_of(agh("session", "history", three, "--last", "0", code=2))


def test_as_lines(agh: Agh, three: str) -> None:
    lines = agh("session", "history", three, "-o", "jsonl").stdout.splitlines()
    assert [json.loads(line) for line in lines] == turns(agh, three)


def test_for_people(agh: Agh, home: Home) -> None:
    name = home.session(conversation()).name
    lines = agh("session", "history", name).stdout.splitlines()
    assert lines[0].startswith("turn-1  20")
    assert lines[0].endswith("end_turn  9 events")
    assert lines[1] == "  > Explain the stop path."
    assert "  < AGH first marks the session stopping..." in lines


def test_people_see_local_times(agh: Agh, three: str) -> None:
    env = {**os.environ, "TZ": "America/New_York"}
    lines = agh("session", "history", three, env=env).stdout.splitlines()
    assert re.match(r"turn-1  2026-04-15 21:00:01 \(\d+w ago\)  end_turn", lines[0])
    assert turns(agh, three)[0]["started_at"] == "2026-04-16T01:00:01.000Z"


def test_a_session_without_turns(agh: Agh, home: Home) -> None:
    name = home.session().name
    assert turns(agh, name) == []
    assert agh("session", "history", name).stdout == ""
    assert agh("session", "history", name, "-o", "jsonl").stdout == ""


def test_a_long_log(agh: Agh, home: Home) -> None:
    name = home.session(says(str(n), turn=f"turn-{n // 100}") for n in range(2500)).name
    history = turns(agh, name)
    assert len(history) == 25
    assert sequences("\n".join(json.dumps(event) for turn in history for event in turn["events"])) == list(
        range(1, 2501)
    )
