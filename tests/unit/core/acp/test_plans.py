"""A plan in lines, whatever form the agent gives it."""

from __future__ import annotations

from typing import Any

import pytest

from agh.core.acp.plans import plan_lines
from agh.core.acp.updates import event_of

ENTRIES = [
    {"content": "look", "status": "completed", "priority": "high"},
    {"content": "leap", "status": "in_progress", "priority": "low"},
    {"content": "land", "status": "pending", "priority": "low"},
]


@pytest.mark.parametrize(
    ("update", "fields", "lines"),
    [
        ({"sessionUpdate": "plan", "entries": ENTRIES}, {}, ["[x] look", "[>] leap", "[ ] land"]),
        (
            {"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "p", "entries": ENTRIES}},
            {"plan_id": "p"},
            ["[x] look", "[>] leap", "[ ] land"],
        ),
        (
            {"sessionUpdate": "plan_update", "plan": {"type": "markdown", "planId": "p", "content": "A\n\n"}},
            {"plan_id": "p"},
            ["A"],
        ),
        (
            {"sessionUpdate": "plan_update", "plan": {"type": "file", "planId": "p", "uri": "file:///p.md"}},
            {"plan_id": "p"},
            ["the plan is in file:///p.md"],
        ),
        ({"sessionUpdate": "plan_removed", "planId": "p"}, {"plan_id": "p"}, ["the plan was dropped"]),
        ({"sessionUpdate": "plan_update", "plan": 7}, {}, []),
        ({"sessionUpdate": "plan", "entries": [3, {"content": "x"}]}, {}, ["[ ] x"]),
    ],
)
def test_forms_of_a_plan(update: dict[str, Any], fields: dict[str, Any], lines: list[str]) -> None:
    assert event_of(update) == ("plan", fields)
    assert plan_lines(update) == lines


def test_what_is_no_plan() -> None:
    assert plan_lines(None) == []
