"""Questions of the agent, read from the log."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from tests.support.live import Session
from tests.support.wait import wait_until


class Question(NamedTuple):
    """A row of the log's table of questions."""

    request_id: str
    status: str
    message: str
    decision: str | None
    answer: str | None
    decided_by: str | None


def rows(session: Session) -> list[Question]:
    """Return every question of the session, oldest first."""
    selected = session.fetch(f"SELECT {', '.join(Question._fields)} FROM questions ORDER BY rowid")
    return list(map(Question._make, selected))


def pending(session: Session) -> Question:
    """Wait for a question and return it; fail if several are pending."""
    (question,) = wait_until(
        lambda: [question for question in rows(session) if question.status == "pending"], what="a question"
    )
    return question


def outcomes(session: Session) -> list[tuple[str | None, str | None]]:
    """Return each decision and what made it."""
    return [(question.decision, question.decided_by) for question in rows(session)]


def form(title: str, required: tuple[str, ...] = (), **properties: dict[str, Any]) -> str:
    """Return the step that asks this form."""
    return "/form " + json.dumps({"title": title, "properties": properties, "required": list(required)})
