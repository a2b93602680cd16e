"""Parked prompts, by a session's metadata."""

from __future__ import annotations

from typing import Any

import pytest

from agh.core.parking import has_open_question, local_reset, seconds_left


@pytest.mark.parametrize(
    ("meta", "is_live", "expected"),
    [
        ({"orphaned_questions": 1}, False, True),
        ({"activity": {"pending_questions": 1}}, False, True),
        ({"activity": {"pending_permissions": 1}}, True, True),
        ({"activity": {"pending_permissions": 1}}, False, False),
        ({"activity": None}, True, False),
    ],
)
def test_a_question_outlives_its_keeper_and_a_permission_does_not(
    meta: dict[str, Any], is_live: bool, expected: bool
) -> None:
    assert has_open_question(meta, is_live) is expected


def test_a_time_that_cannot_be_read_has_passed() -> None:
    assert seconds_left({"resumes_at": "1970-01-01T00:01:00.000Z"}, 0.0) == 60.0
    assert seconds_left({"resumes_at": "soon"}, 0.0) == 0.0
    assert local_reset({"resumes_at": "soon"}) == "soon"
