"""A recap is bounded, redacted, and the same bytes for the same rows."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agh.core.events import draft, marker
from agh.core.recap import recap
from agh.core.redaction.redact import redactor
from agh.core.transcript import Message, transcript
from tests.support.build import AT, calls, conversation, finishes, returns, rows, says, user

LAW = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
SESSION = {"id": "sess-abcdefgh", "badge": "stopped", "state": "stopped", "name": "not shown"}
NOTHING = redactor()
KINDS = [
    "prompt_queued",
    "prompt_accepted",
    "prompt_dropped",
    "session_unhealthy",
    "session_recovered",
    "context_reset",
]
POOL = [
    *conversation(),
    *(marker(kind, "x", at=AT) for kind in KINDS),
    user("hi", turn="turn-2"),
    says("ho", turn="turn-2"),
    finishes("turn-2"),
]


def _recap(
    messages: list[Message], limit: int = 20, secrets: dict[str, str] | None = None, **fields: Any
) -> Any:
    counts: Any = {
        "generated_at": AT,
        "event_cursor": 7,
        "pending_inputs": 1,
        "pending_permissions": 2,
        "pending_questions": 1,
        "queue_generation": 3,
        **fields,
    }
    session = SESSION | counts.pop("session", {})
    return recap(session, messages, limit, redactor(secrets or {}), **counts)


talks = st.lists(st.sampled_from(POOL), max_size=30).map(lambda drafts: transcript(rows(drafts)))


@given(talks, st.integers(1, 100), st.integers(0, 5))
@LAW
def test_the_newest_are_shown_and_the_rest_is_counted(
    messages: list[Message], limit: int, messages_before: int
) -> None:
    before = copy.deepcopy(messages)
    summary = _recap(messages, limit, omitted_messages=messages_before)
    assert messages == before
    assert json.dumps(summary) == json.dumps(_recap(messages, limit, omitted_messages=messages_before))
    talk = [message for message in messages if message["role"] != "marker"]
    markers = [message for message in messages if message["role"] == "marker"]
    assert len(summary["recent_messages"]) <= limit and len(summary["recent_markers"]) <= limit
    assert [message["id"] for message in summary["recent_messages"]] == [
        message["id"] for message in talk[-limit:]
    ]
    assert [marker["id"] for marker in summary["recent_markers"]] == [
        marker["id"] for marker in markers[-limit:]
    ]
    assert summary["omitted"] == {
        "messages": messages_before + len(talk) - len(summary["recent_messages"]),
        "markers": len(markers) - len(summary["recent_markers"]),
    }
    assert 0 <= summary["pending_markers"] <= len(markers)


def test_the_shape_is_that_of_the_contract() -> None:
    summary = _recap(transcript(rows(conversation())))
    assert list(summary) == [
        "session",
        "recent_markers",
        "recent_messages",
        "pending_markers",
        "pending_inputs",
        "pending_permissions",
        "pending_questions",
        "omitted",
        "snapshot",
    ]
    assert summary["session"] == {"id": "sess-abcdefgh", "badge": "stopped", "state": "stopped"}
    assert (summary["pending_inputs"], summary["pending_permissions"]) == (1, 2)
    assert summary["pending_questions"] == 1
    assert summary["snapshot"] == {
        "generated_at": AT,
        "event_cursor": 7,
        "transcript_cursor": 7,
        "queue_generation": 3,
        "consistency": "persisted_reads",
    }
    (note,) = summary["recent_markers"]
    assert "role" not in note and note["kind"] == "context_reset"
    assert [message["role"] for message in summary["recent_messages"]] == [
        "user",
        "assistant",
        "tool_call",
        "tool_result",
        "assistant",
    ]


@pytest.mark.parametrize(
    ("kinds", "pending"),
    [
        ("", 0),
        ("prompt_queued", 1),
        ("prompt_queued prompt_queued prompt_accepted", 1),
        ("prompt_queued prompt_steered prompt_queued", 2),
        ("prompt_accepted prompt_queued", 1),
        ("session_unhealthy session_unhealthy session_recovered", 0),
        ("session_recovered session_unhealthy", 1),
        ("prompt_queued session_unhealthy mcp_auth_required", 3),
        ("prompt_queued session_recovered", 1),
        ("mcp_auth_required session_unhealthy session_recovered", 0),
        ("context_reset provider_failure prompt_timeout", 0),
    ],
)
def test_markers_that_still_wait(kinds: str, pending: int) -> None:
    messages = transcript(rows([marker(kind, "x") for kind in kinds.split()]))
    sick = {"state": "active", "badge": "unhealthy"}
    assert _recap(messages, limit=1, session=sick, pending_inputs=2)["pending_markers"] == pending


@pytest.mark.parametrize(
    ("session", "pending"),
    [
        ({"state": "active", "badge": "running"}, 1),  # only the login is still missing
        ({"state": "stopped", "badge": "failed"}, 0),
    ],
)
def test_markers_that_are_settled_without_another_marker(session: dict[str, str], pending: int) -> None:
    kinds = ("prompt_queued", "prompt_steered", "session_unhealthy", "mcp_auth_required")
    messages = transcript(rows([marker(kind, "x") for kind in kinds]))
    assert _recap(messages, session=session, pending_inputs=0)["pending_markers"] == pending


def test_secrets_do_not_leave() -> None:
    key, token = "correct-horse-7-battery", "ghp_" + "a1B2" * 9
    drafts = [
        user(f"use {key}"),
        says("the key is correct-horse"),
        says("-7-battery, and " + token[:12]),
        says(token[12:]),
        calls("c", "Bash", tool_input={"env": [{"name": "API_KEY", "value": key}]}, title=f"curl {token}"),
        returns("c", tool_result={"stdout": token, "raw_output": {"deep": [key]}}),
        marker("provider_failure", f"{key} was refused", diagnostic=token),
        draft("done", turn_id="turn-1"),
    ]
    text = json.dumps(_recap(transcript(rows(drafts)), secrets={"MY_API_KEY": key}))
    assert key not in text and token not in text and "a1B2a1B2" not in text
    assert "[redacted]" in text
    unredacted = json.dumps(_recap(transcript(rows(conversation()))))
    assert "[redacted]" not in unredacted


def test_a_secret_on_both_sides_of_a_tool_call_is_hidden() -> None:
    token = "sk-ant-" + "a1B2c3D4" * 5
    drafts = [user("a"), says("it is " + token[:12]), calls("c"), says(token[12:] + " there")]
    for limit in (1, 20):
        text = json.dumps(_recap(transcript(rows(drafts)), limit))
        assert token[:12] not in text and token[12:] not in text
        assert " there" in text
