"""A refusal ends a turn when the agent stops for want of what it asked for, and only then."""

from __future__ import annotations

from typing import Any

import pytest

from agh.core.events import Draft, draft, marker
from agh.core.refusal import Refusal, RefusalTracker
from tests.support.build import calls, returns, rows, says, thinks

DENIED = {"decision": "denied", "decided_by": "mode"}


def permission(turn: str = "turn-1", **fields: Any) -> Draft:
    shared = {"request_id": "perm-1", "action": "execute", "resource": "rm -rf x", "tool_call_id": "c1"}
    return draft("permission", turn_id=turn, **{**shared, **fields})


def refused(*drafts: Draft, stop_reason: str = "end_turn") -> Refusal | None:
    """Return the refusal that ended turn-1."""
    tracker = RefusalTracker("turn-1")
    for row in rows(drafts):
        tracker.feed(row)
    return tracker.refusal(stop_reason)


@pytest.mark.parametrize("stop_reason", ["end_turn", "cancelled", "refusal", "error", "max_tokens"])
def test_nothing_after_a_refusal(stop_reason: str) -> None:
    refusal = refused(says("let me see"), permission(), permission(**DENIED), stop_reason=stop_reason)
    assert refusal is not None
    assert (refusal.action, refusal.resource, refusal.decided_by) == ("execute", "rm -rf x", "mode")
    assert (refusal.name, refusal.reason) == ("execute 'rm -rf x'", "mode deny-all")


@pytest.mark.parametrize("progress", [says("then I will not"), returns("c2")], ids=["words", "another tool"])
def test_an_agent_that_continued(progress: Draft) -> None:
    assert refused(permission(**DENIED), progress) is None
    assert refused(permission(**DENIED), progress, stop_reason="error") is None
    assert refused(permission(**DENIED), progress, stop_reason="refusal") is not None
    assert refused(permission(**DENIED), progress, stop_reason="cancelled") is not None
    assert refused(permission(**DENIED), progress, permission(**DENIED)) is not None, "the last one counts"


@pytest.mark.parametrize(
    "nothing",
    [
        says(""),
        says(" \n"),
        thinks("oh"),
        calls("c2"),
        returns("c2", tool_error=True),
        returns("c1"),
        says("from another turn", "turn-2"),
    ],
    ids=["empty", "blank", "thought", "tool begun", "tool failed", "the refused tool", "another turn"],
)
def test_what_is_no_progress(nothing: Draft) -> None:
    assert refused(permission(**DENIED), nothing) is not None


@pytest.mark.parametrize(
    "drafts",
    [
        [],
        [permission()],
        [permission(decision="allowed", decided_by="user")],
        [permission("turn-2", **DENIED)],
        [permission(decision="cancelled", decided_by="turn_end")],
        [permission(decision="cancelled", decided_by="agent")],
        [permission(**DENIED), marker("prompt_cancel", "the turn was cancelled", turn="turn-1")],
    ],
    ids=["none", "pending", "allowed", "another turn", "turn ended", "taken back", "cancelled by someone"],
)
def test_what_is_no_refusal(drafts: list[Draft]) -> None:
    assert refused(*drafts) is None
    assert refused(*drafts, stop_reason="cancelled") is None


def test_a_cancel_of_another_turn_does_not_count() -> None:
    other = marker("prompt_cancel", "the turn was cancelled", turn="turn-2")
    assert refused(permission(**DENIED), other) is not None


def test_a_turn_whose_agent_died_was_not_ended_by_a_refusal() -> None:
    assert refused(permission(**DENIED), stop_reason="interrupted") is None


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"resource": "a\n  b"}, "execute 'a b'"),
        ({"resource": "x" * 300}, f"execute '{'x' * 199}…'"),
        ({"resource": None, "title": "Fetch a page"}, "execute 'Fetch a page'"),
        ({"resource": None}, "execute"),
        ({"resource": None, "action": None}, "other"),
    ],
)
def test_what_was_refused_fits_on_a_line(fields: dict[str, Any], name: str) -> None:
    refusal = refused(permission(**fields, **DENIED))
    assert refusal is not None and refusal.name == name


def test_the_title_comes_from_the_request() -> None:
    refusal = refused(permission(resource=None, title="Fetch a page"), permission(resource=None, **DENIED))
    assert refusal is not None and refusal.name == "execute 'Fetch a page'"


@pytest.mark.parametrize(
    ("decided_by", "reason"),
    [("no-ask", "--no-ask"), ("user", "by the user"), ("timeout", "no answer in time"), ("web", "by web")],
)
def test_who_refused_it(decided_by: str, reason: str) -> None:
    refusal = refused(permission(decision="denied", decided_by=decided_by))
    assert refusal is not None and refusal.reason == reason


def test_an_answer_for_which_the_agent_offered_no_option() -> None:
    refusal = refused(permission(decision="cancelled", decided_by="user"))
    assert refusal is not None and refusal.reason == "the agent offered no option that fits the answer"
