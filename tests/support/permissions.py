"""Permission requests: read from the log, and sent as a real agent may word them."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from tests.support.live import Session
from tests.support.wait import wait_until

STAYS = "\n/sleep 60"  # the turn keeps running, so its end does not close the request
ALL = ("allow_once", "allow_always", "reject_once", "reject_always")


class Request(NamedTuple):
    """A row of the log's table of permission requests."""

    request_id: str
    status: str
    action: str
    resource: str | None
    decision: str | None
    option_id: str | None
    decided_by: str | None


def requests(session: Session) -> list[Request]:
    """Return every request of the session, oldest first."""
    sql = f"SELECT {', '.join(Request._fields)} FROM permissions WHERE rowid > ? ORDER BY rowid"
    rows = session.fetch(sql, session.since.permission)
    return list(map(Request._make, rows))


def pending(session: Session) -> Request:
    """Wait for a request and return it; fail if several are pending."""
    (request,) = wait_until(
        lambda: [request for request in requests(session) if request.status == "pending"],
        what="a permission request",
    )
    return request


def outcomes(session: Session) -> list[tuple[str | None, str | None]]:
    """Return each decision and what made it."""
    return [(request.decision, request.decided_by) for request in requests(session)]


def answers(text: str) -> list[str]:
    """Return the answers that the scripted agent says it got."""
    return re.findall(r"permission: (allow_once|allow_always|reject_once|reject_always|cancelled)", text)


def raw_request(
    tool: dict[str, Any], options: tuple[str, ...] = ALL, method: str = "session/request_permission"
) -> str:
    """Return a step that sends a request in words that the scripted agent itself would not use."""
    offered = [{"optionId": kind, "name": kind, "kind": kind} for kind in options]
    params = {
        "sessionId": "any",
        "toolCall": {"toolCallId": "raw", "title": "raw", **tool},
        "options": offered,
    }
    return raw(method, params)


def ask_to_edit(session: Session, *names: str, new_text: str = "new\n") -> None:
    """Let the agent ask at once whether it may edit these files, and wait for its requests."""
    steps = [_edit(f"{session.id}-{name}", str(session.live.workspace / name), new_text) for name in names]
    session.send("\n".join(steps) + STAYS)
    wait_until(lambda: (session.meta().get("activity") or {}).get("pending_permissions") == len(names))


def _edit(id: str, path: str, new_text: str) -> str:
    change = {"type": "diff", "path": path, "oldText": "old\n", "newText": new_text}
    tool = {
        "toolCallId": id,
        "title": "Edit",
        "kind": "edit",
        "locations": [{"path": path}],
        "content": [change],
    }
    options = [{"optionId": kind, "name": kind, "kind": kind} for kind in ALL]
    params = {"sessionId": "any", "toolCall": tool, "options": options}
    return "/raw " + json.dumps(
        {"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params}
    )


def raw(method: str, params: dict[str, Any]) -> str:
    return "/raw " + json.dumps({"jsonrpc": "2.0", "id": "raw", "method": method, "params": params})


def received(session: Session, *, agent_session: str | None = None) -> list[str]:
    """Return the user texts that the scripted agent remembers."""
    home = session.live.home.parent / "echo"
    name = agent_session or session.meta()["acp_session_id"]
    lines = (home / f"{name}.jsonl").read_text().split("\n")[:-1]  # the last may be half written
    return [record["user"] for line in lines if line and "user" in (record := json.loads(line))]
