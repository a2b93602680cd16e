"""Briefs: what a list shows of a session and filters by. Pure.

A brief follows from the session's view alone, so that the list cache can store it (agh.store.caches.briefs).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agh.core.display.printable import one_line
from agh.core.named_tuple import NamedTuple

LONGEST = 1000  # what is shown of a text at most


class Brief(NamedTuple):
    """What a list needs to know about a session. A text that is missing is empty. What is shown and anybody
    may have written is on one line and clean.

    Plain values only, and first those that sessions are sorted by: tuples are compared and taken apart into
    columns without any code of ours, and 10,000 sessions have 150,000 values.
    """

    updated_at: str
    id: str
    state: str
    badge: str
    is_archived: bool
    agent: str
    name: str
    label: str  # the name or the title
    title: str
    model: str
    cost: str
    last_line: str
    workspace_id: str
    workspace_path: str
    origin: str  # where its worktree comes from
    resumes_at: str
    host: str  # of a list of several


def brief_of(view: Mapping[str, Any]) -> Brief:
    """Return the brief of a session's view."""
    return Brief(
        updated_at=view.get("updated_at") or "",
        id=view["id"],
        state=view["state"],
        badge=view["badge"],
        is_archived=bool(view.get("archived")),
        agent=view.get("agent_name") or "",
        name=view.get("name") or "",
        label=one_line(format_name(view), LONGEST),
        title=one_line(view.get("title") or "", LONGEST),
        model=one_line(format_model(view), LONGEST),
        cost=format_cost(view),
        last_line=one_line(last_line(view), LONGEST),
        workspace_id=view.get("workspace_id") or "",
        workspace_path=view.get("workspace_path") or "",
        origin=str((view.get("worktree") or {}).get("origin") or ""),
        resumes_at=one_line(view.get("resumes_at") or "", LONGEST),
        host=one_line(view.get("host") or "", LONGEST),
    )


def format_name(view: Mapping[str, Any]) -> str:
    """Return the name that its user gave the session, or its title."""
    return str(view.get("name") or view.get("title") or "")


def format_model(view: Mapping[str, Any]) -> str:
    """Return the model that is in use, if it is known."""
    return str((view.get("current") or {}).get("model") or view.get("model") or "")


def format_cost(view: Mapping[str, Any]) -> str:
    """Return what the session has cost so far; nothing if that is not known."""
    spent = view.get("spent") or {}
    amount, currency = spent.get("cost_amount"), str(spent.get("cost_currency") or "USD")
    if not isinstance(amount, int | float) or not amount:
        return ""
    if currency == "USD":
        return f"${amount:.2f}"
    return f"{amount:.2f} {one_line(currency, 8)}"


def last_line(view: Mapping[str, Any]) -> str:
    """Return what the agent asks or said last, or what is wrong with the session."""
    if "error" in view:
        return str(view["error"]["message"])
    if view.get("why_not"):
        return str(view["why_not"]["message"])
    failure = (view.get("failure") or {}).get("summary") if view["badge"] == "failed" else None
    text = str(_question(view) or failure or view.get("last_message") or "")
    if orphaned := view.get("orphaned_questions"):
        text = f"({orphaned} open {'question' if orphaned == 1 else 'questions'}) {text}"
    if unanswered := view.get("unanswered_permissions"):
        text = f"({unanswered} unanswered) {text}"
    return text.rstrip()


def _question(view: Mapping[str, Any]) -> str:
    activity = view.get("activity")
    if not activity:
        return ""
    if activity.get("waiting_for_slot"):
        return "waiting for a slot"
    if activity.get("disconnected_at"):
        return f"no connection to {view.get('place')}; the session continues there"
    question = str(activity.get("question") or "")
    if view.get("workspace_path"):
        question = question.replace(f"{view['workspace_path']}/", "")  # the end of a path says more
    return question
