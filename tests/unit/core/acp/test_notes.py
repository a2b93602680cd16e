"""Notices and compactions of an agent become markers."""

from __future__ import annotations

from typing import Any

import pytest

from agh.core.acp.updates import event_of

MARKER = "transcript_marker.created"


@pytest.mark.parametrize(
    ("update", "kind", "severity", "summary"),
    [
        ({"severity": "error", "title": "Rate limited"}, "agent_notice", "error", "Rate limited"),
        ({"severity": "odd", "title": "A", "description": "B"}, "agent_notice", "info", "A: B"),
    ],
)
def test_a_notice(update: dict[str, Any], kind: str, severity: str, summary: str) -> None:
    fields = {"kind": kind, "severity": severity, "summary": summary}
    assert event_of({"sessionUpdate": "notice", **update}) == (MARKER, fields)


def test_a_notice_that_says_nothing_is_no_marker() -> None:
    assert event_of({"sessionUpdate": "notice", "title": " "})[0] == "system"
    assert event_of({"sessionUpdate": "notice", "title": ["x"]})[0] == "system"


def test_a_compaction_is_a_marker_once_it_has_ended() -> None:
    update = {"sessionUpdate": "compaction_update", "compactionId": "1"}
    assert event_of({**update, "status": "in_progress"}) == (
        "system",
        {"title": "compaction_update: in_progress"},
    )
    type, fields = event_of({**update, "status": "completed"})
    assert (type, fields["summary"]) == (MARKER, "the agent compacted its context here")
    type, fields = event_of({**update, "status": "failed", "error": "too long"})
    assert (type, fields["severity"]) == (MARKER, "warning")
    assert fields["summary"] == "the agent could not compact its context: too long"
