"""Permission requests as tests see them: found in the log, told as an agent may word them."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from tests.support.live import Session
from tests.support.wait import wait_until

STAYS = "\n/sleep 60"  # the turn goes on, so that nothing is settled by its end
ALL = ("allow_once", "allow_always", "reject_once", "reject_always")


class Asked(NamedTuple):
    request_id: str
    status: str
    action: str
    resource: str | None
    decision: str | None
    option_id: str | None
    decided_by: str | None


def requests(session: Session) -> list[Asked]:
    """Every request of the session, oldest first."""
    rows = session.fetch(f"SELECT {', '.join(Asked._fields)} FROM permissions ORDER BY rowid")
    return list(map(Asked._make, rows))


def pending(session: Session) -> Asked:
    """The one request that waits, once there is one."""
    (found,) = wait_until(lambda: [one for one in requests(session) if one.status == "pending"], what="asked")
    return found


def outcomes(session: Session) -> list[tuple[str | None, str | None]]:
    """What was decided, and by what."""
    return [(one.decision, one.decided_by) for one in requests(session)]


def answers(said: str) -> list[str]:
    """What the scripted agent was told, request by request."""
    return re.findall(r"permission: (allow_once|allow_always|reject_once|reject_always|cancelled)", said)


def raw_request(
    tool: dict[str, Any], options: tuple[str, ...] = ALL, method: str = "session/request_permission"
) -> str:
    """A step that sends a request which the scripted agent would not word like this."""
    offered = [{"optionId": kind, "name": kind, "kind": kind} for kind in options]
    params = {
        "sessionId": "any",
        "toolCall": {"toolCallId": "raw", "title": "raw", **tool},
        "options": offered,
    }
    return raw(method, params)


def raw(method: str, params: dict[str, Any]) -> str:
    return "/raw " + json.dumps({"jsonrpc": "2.0", "id": "raw", "method": method, "params": params})


def received(session: Session, *, agent_session: str | None = None) -> list[str]:
    """The user texts that the scripted agent has got, by its own memory."""
    home = session.live.home.parent / "echo"
    name = agent_session or session.meta()["acp_session_id"]
    lines = (home / f"{name}.jsonl").read_text().split("\n")[:-1]  # the last may be half written
    return [record["user"] for line in lines if line and "user" in (record := json.loads(line))]
