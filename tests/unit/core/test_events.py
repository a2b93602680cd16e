"""A row and its printed form say the same, whatever is in them."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agh.core import events
from agh.core.events import (
    Row,
    draft,
    envelopes,
    event_id,
    joined_envelopes,
    marker,
    parse_content,
    timestamp,
    to_raw,
)

LAW = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

# As in docs/spec.md.
TYPES = [
    "user_message",
    "agent_message",
    "thought",
    "tool_call",
    "tool_result",
    "plan",
    "permission",
    "question",
    "usage",
    "runtime_progress",
    "runtime_warning",
    "event_lost",
    "system",
    "done",
    "error",
    "session_stopped",
    "session_paused",
    "session_resumed",
    "session_attached",
    "session_detached",
    "transcript_marker.created",
    "transcript_marker.redacted",
]

leaves: Any = (
    st.text()
    | st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
)
values: Any = leaves | st.lists(leaves, max_size=3) | st.dictionaries(st.text(), leaves, max_size=3)
contents = st.dictionaries(st.text(), values, max_size=4)


@st.composite
def as_text(draw: Any, content: Any) -> str:
    """JSON as an agent may have written it: spread over lines, escaped or not."""
    text = json.dumps(
        draw(content), ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 0, 2, "\t"]))
    )
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n", "\r", "\n\n"])))


@st.composite
def stored(draw: Any) -> Row:
    return Row(
        draw(st.integers(1, 2**63 - 1)),
        draw(st.text()),
        draw(st.sampled_from(TYPES)),
        draw(st.text()),
        draw(as_text(contents)),
        "2026-04-16T01:10:06.000Z",
    )


def test_the_types_are_those_of_the_contract() -> None:
    assert list(events.TYPES) == TYPES


@given(st.lists(stored(), min_size=1, max_size=2), st.text(), st.none() | st.text(), st.none() | st.text())
@example(
    [Row(1, 'a"b', "user_message", "\\", '{"text":\n"q\\"\\n\\u0000 🦀"\r\n}', "2026-04-16T01:00:00.000Z")],
    "s",
    "",
    "é",
)
@LAW
def test_an_envelope_is_one_line_of_json_that_equals_its_row(
    rows: list[Row], session: str, workspace: str | None, path: str | None
) -> None:
    lines = list(envelopes(rows, session, workspace, path))
    assert len(lines) == len(rows)
    for row, line in zip(rows, lines, strict=True):
        assert "\n" not in line and "\r" not in line
        line.encode()
        pairs = json.loads(line, object_pairs_hook=list)
        assert [key for key, _ in pairs] == [
            "id",
            "session_id",
            "sequence",
            "turn_id",
            "type",
            "agent_name",
            "workspace_id",
            "workspace_path",
            "content",
            "timestamp",
        ]
        assert json.loads(line) == {
            "id": row.id,
            "session_id": session,
            "sequence": row.sequence,
            "turn_id": row.turn_id,
            "type": row.type,
            "agent_name": row.agent_name,
            "workspace_id": workspace,
            "workspace_path": path,
            "content": json.loads(row.content),
            "timestamp": row.timestamp,
        }


@pytest.mark.parametrize(
    "content",
    ['{"n":1.50e+03,"n":2}', '{ "a" : "\\u00e9" }', '{"big":123456789012345678901234567890}', '"text"', "[]"],
)
def test_content_comes_out_as_it_came_in(content: str) -> None:
    (line,) = envelopes([Row(1, "t", "system", "a", content, "at")], "s", None, None)
    assert f'"content":{content},"timestamp":"at"}}' in line


def test_more_names_than_are_remembered() -> None:
    rows = [Row(n, f"turn-{n}", "system", "a", "{}", "at") for n in range(1, 20_050)]
    rows += rows[:5]
    seen = [orjson.loads(line) for line in envelopes(rows, "s", None, None)]
    assert [event["turn_id"] for event in seen] == [row.turn_id for row in rows]


# An event as scripts read it; see docs/spec.md.
ENVELOPE = """
{
  "id": "evt-000042",
  "session_id": "sess-1234",
  "sequence": 42,
  "turn_id": "turn-9abc",
  "type": "tool_result",
  "agent_name": "general",
  "workspace_id": "repo-alpha",
  "workspace_path": "/absolute/path/to/repo",
  "content": {
    "schema": "agh.session.event.v1",
    "type": "tool_result",
    "session_id": "acp-session-77",
    "turn_id": "turn-9abc",
    "timestamp": "2026-04-16T01:10:06Z",
    "tool_call_id": "tool-call-1",
    "tool_name": "Read",
    "tool_result": {
      "content": "package session"
    },
    "tool_error": false,
    "raw": {
      "status": "completed"
    }
  },
  "timestamp": "2026-04-16T01:10:06Z"
}
"""


def test_the_envelope_is_reproduced_to_the_byte() -> None:
    event = draft(
        "tool_result",
        turn_id="turn-9abc",
        agent_session="acp-session-77",
        at="2026-04-16T01:10:06Z",
        tool_call_id="tool-call-1",
        tool_name="Read",
        tool_result={"content": "package session"},
        tool_error=False,
        raw={"status": "completed"},
    )
    row = Row(42, event.turn_id, event.type, "general", event.content, event.timestamp)
    (line,) = envelopes([row], "sess-1234", "repo-alpha", "/absolute/path/to/repo")
    assert line == json.dumps(json.loads(ENVELOPE), separators=(",", ":"))


@given(
    contents.map(lambda fields: {f"x_{key}": value for key, value in fields.items()}), st.text(), st.text()
)
@LAW
def test_a_draft_has_the_shared_fields_first_and_none_is_left_out(
    fields: dict[str, Any], turn: str, session: str
) -> None:
    event = draft("plan", turn_id=turn, agent_session=session, at="then", **fields)
    assert (event.type, event.turn_id, event.timestamp) == ("plan", turn, "then")
    content = parse_content(event.content)
    assert list(content)[:5] == ["schema", "type", "session_id", "turn_id", "timestamp"]
    assert content == {
        "schema": "agh.session.event.v1",
        "type": "plan",
        "session_id": session,
        "turn_id": turn,
        "timestamp": "then",
        **{key: value for key, value in json.loads(json.dumps(fields)).items() if value is not None},
    }


def test_a_marker_says_what_when_and_how_bad() -> None:
    event = marker("context_reset", "the agent forgot", severity="warning", at="then", diagnostic="why")
    assert (event.type, event.turn_id, event.timestamp) == ("transcript_marker.created", "", "then")
    content = parse_content(event.content)
    assert {key: content[key] for key in ("kind", "severity", "summary", "occurred_at", "diagnostic")} == {
        "kind": "context_reset",
        "severity": "warning",
        "summary": "the agent forgot",
        "occurred_at": "then",
        "diagnostic": "why",
    }


@given(as_text(values) | st.text())
@LAW
def test_content_reads_as_a_mapping_or_as_empty(text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        expected = None
    content = parse_content(text)
    assert isinstance(content, dict)
    if isinstance(expected, dict) and content:
        assert content == expected
    elif not isinstance(expected, dict):
        assert content == {}


def test_content_that_is_no_text_at_all_reads_as_empty() -> None:
    for broken in ("", "{", '{"a":"\ud800"}', "NaN", "[1]", "null"):
        assert parse_content(broken) == {}


@given(
    st.datetimes(datetime(1971, 1, 1), datetime(9998, 1, 1)),
    st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes))),
)
@LAW
def test_timestamps_are_utc_with_milliseconds(moment: datetime, zone: timezone) -> None:
    moment = moment.replace(tzinfo=zone)
    text = timestamp(moment)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", text)
    assert timedelta(0) <= moment - datetime.fromisoformat(text) < timedelta(milliseconds=1)


def test_now_is_between_before_and_after() -> None:
    before, text, after = datetime.now(UTC), timestamp(), datetime.now(UTC)
    assert before - timedelta(milliseconds=1) < datetime.fromisoformat(text) <= after


@given(st.integers(1, 2**63 - 1))
@LAW
def test_event_ids_are_padded_to_six(sequence: int) -> None:
    assert event_id(sequence) == "evt-" + str(sequence).rjust(6, "0")


NAMES = st.one_of(
    st.sampled_from(["turn-1", "echo", 'a "quoted" name', "100%", "%s%d", "back\\slash"]), st.text()
)
CONTENTS = st.one_of(
    st.sampled_from(['{"a":1}', '{"a":\n1}', '{"a":\r\n"%d"}']),
    st.text().map(lambda text: json.dumps([text])),
)
ROWS = st.lists(
    st.builds(Row, st.integers(1, 10**9), NAMES, NAMES, NAMES, CONTENTS, st.just("2026-04-16T01:00:00.000Z"))
)


@LAW
@given(st.lists(ROWS), NAMES, st.none() | NAMES, st.none() | NAMES)
def test_joined_lines_are_the_same_lines(
    pages: list[list[Row]], session: str, workspace: str | None, path: str | None
) -> None:
    plain: set[tuple[bytes, ...]] = set()
    for rows in pages:
        joined = joined_envelopes([to_raw(row) for row in rows], (session, workspace, path), plain)
        assert joined == "".join(f"{line}\n" for line in envelopes(rows, session, workspace, path)).encode()
