"""What waits for the user, by a session's metadata."""

from __future__ import annotations

from typing import Any

import pytest

from agh.core.status import effective_meta
from agh.core.waiting import count_waiting, mark_of

ACTIVE: dict[str, Any] = {"state": "active"}
STOPPED: dict[str, Any] = {"state": "stopped"}
ASKING = {**ACTIVE, "activity": {"pending_permissions": 2, "pending_questions": 1}}
LIMITED = {"resumes_at": "2026-01-01T15:00:00.000Z", "limited": {"since": "2026-01-01T12:00:00.000Z"}}
LOGIN = {"kind": "provider_auth_failure"}


@pytest.mark.parametrize(
    ("meta", "is_locked", "counts"),
    [
        (ASKING, True, {"permission": 2, "question": 1}),
        (ASKING, False, {"question": 1, "failure": 1}),
        ({**ACTIVE, "activity": {"waiting_for_auth": True}}, True, {"login": 1}),
        ({**ACTIVE, "activity": None}, True, {}),
        ({**STOPPED, "stop_reason": "completed", "orphaned_questions": 3}, False, {"question": 3}),
        ({**STOPPED, "stop_reason": "paused", "stop_detail": "gate: Go on?"}, False, {"gate": 1}),
        ({**STOPPED, "stop_reason": "paused", "stop_detail": "gate approved"}, False, {}),
        ({**STOPPED, "stop_reason": "agent_crashed"}, False, {"failure": 1}),
        ({**STOPPED, "stop_reason": "error", "failure": LOGIN}, False, {"login": 1}),
        ({**STOPPED, "stop_reason": "agent_crashed", "archived": True}, False, {}),
        ({**STOPPED, "stop_reason": "max_turns"}, False, {}),
        ({**ACTIVE, **LIMITED}, True, {"limited": 1}),
        ({**ACTIVE, **LIMITED}, False, {"limited": 1}),
        ({**STOPPED, "stop_reason": "idle", **LIMITED}, False, {"limited": 1}),
        ({**STOPPED, "stop_reason": "idle", **LIMITED, "archived": True}, False, {}),
        ({**STOPPED, "stop_reason": "paused", **LIMITED}, False, {}),
        ({**STOPPED, "stop_reason": "error", **LIMITED}, False, {"failure": 1}),
    ],
)  # fmt: skip
def test_what_waits_follows_from_the_metadata(
    meta: dict[str, Any], is_locked: bool, counts: dict[str, int]
) -> None:
    assert count_waiting(meta, is_locked) == counts


def test_a_failure_stays_the_same_when_its_end_is_written_and_differs_after_a_resume() -> None:
    vanished = effective_meta({**ACTIVE, "restore": None, "last_sequence": 3}, lock_held=False)
    written = {**vanished, "last_sequence": 5, "updated_at": "later"}
    assert mark_of(vanished) == mark_of(written)
    assert mark_of(vanished) != mark_of({**written, "restore": {"at": "2026-01-01"}})


def test_another_window_is_another_limit() -> None:
    stopped = {**STOPPED, "stop_reason": "idle"}
    later = {**LIMITED, "limited": {"since": "2026-01-01T15:01:00.000Z"}}
    assert mark_of({**ACTIVE, **LIMITED}) == mark_of({**stopped, **LIMITED})
    assert mark_of({**ACTIVE, **LIMITED}) != mark_of({**ACTIVE, **later})
