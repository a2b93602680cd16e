"""Permission requests: decided by the session's mode, or kept as a durable row until someone answers.

Promises: a request and its decision are events; no option is chosen that the user did not mean (no
fitting option offered: the request is answered as cancelled); an unanswered request is rejected at
its timeout.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import orjson

from agh.core.events import timestamp
from agh.core.frames import Request
from agh.core.updates import tool_name
from agh.errors import PermissionUnknown
from agh.keeper.control import Answer
from agh.keeper.live import Live
from agh.keeper.loop import Timer

READING = ("read", "search", "think")
YES_OR_NO = [
    {"optionId": "allow", "name": "Allow", "kind": "allow_once"},
    {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
]

# What a verdict may choose among the options, in order; `always` is meant only when it was said.
_MEANT = {
    "allow": ("allow_once",),
    "allow_all": ("allow_once", "allow_always"),
    "allow_always": ("allow_always", "allow_once"),
    "deny": ("reject_once",),
    "deny_always": ("reject_always", "reject_once"),
    "cancel": (),
}


class Asked(NamedTuple):
    """A request that waits. `finish` gets the chosen option, or None for cancelled."""

    request_id: str
    turn_id: str
    action: str
    resource: str | None
    tool_call_id: str | None
    options: list[dict[str, Any]]
    finish: Callable[[dict[str, Any] | None], None]
    timer: Timer


def asked(live: Live, frame: Request, params: dict[str, Any]) -> None:
    """The agent asks `session/request_permission`."""
    tool = params["toolCall"]
    options = [option for option in params["options"] if isinstance(option, dict) and "optionId" in option]
    paths = [
        str(one["path"]) for one in tool.get("locations") or [] if isinstance(one, dict) and "path" in one
    ]
    agent = live.agent
    assert agent is not None

    def finish(option: dict[str, Any] | None) -> None:
        if live.turn is not None and is_allowed(option):
            live.turn.approved |= _resources(tool)
        outcome = (
            {"outcome": "selected", "optionId": option["optionId"]} if option else {"outcome": "cancelled"}
        )
        agent.reply(frame.id, {"outcome": outcome})

    ask(
        live,
        action=str(tool.get("kind") or tool_name(tool) or "other"),
        resource=paths[0] if paths else None,
        title=tool.get("title"),
        tool_call_id=tool.get("toolCallId"),
        options=options,
        raw=frame.raw,
        finish=finish,
    )


def ask(
    live: Live,
    *,
    action: str,
    resource: str | None,
    title: str | None,
    options: list[dict[str, Any]],
    raw: str,
    finish: Callable[[dict[str, Any] | None], None],
    tool_call_id: str | None = None,
) -> None:
    """Inside a batch: record the request, and decide it by the mode or let it wait for a person."""
    request_id = "perm-" + os.urandom(4).hex()
    turn_id = live.turn.turn_id if live.turn else ""
    fields = {"action": action, "resource": resource, "tool_call_id": tool_call_id}
    live.record("permission", turn_id=turn_id, request_id=request_id, title=title, raw=raw, **fields)
    live.db.execute(
        "INSERT INTO permissions (request_id, turn_id, tool_call_id, status, action, resource, title, "
        "request, created_at) VALUES (?, ?, ?, 'pending', ?, ?, ?, ?, ?)",
        [
            request_id,
            turn_id,
            tool_call_id,
            action,
            resource,
            title,
            orjson.dumps(options).decode(),
            timestamp(),
        ],
    )
    timer = live.loop.later(live.settings["permissions.timeout"], lambda: _expire(live, request_id))
    live.asked[request_id] = Asked(
        request_id, turn_id, action, resource, tool_call_id, options, finish, timer
    )
    verdict = by_mode(str(live.meta.get("permissions") or live.settings["permissions.mode"]), action)
    if live.turn is not None and options is YES_OR_NO and resource in live.turn.approved:
        decide(live, request_id, "allow", decided_by="this turn")
    elif verdict is not None:
        decide(live, request_id, verdict, decided_by="mode")
    else:
        live.then(live.show_activity)


def is_allowed(option: dict[str, Any] | None) -> bool:
    return option is not None and str(option.get("kind")).startswith("allow")


def _resources(tool: dict[str, Any]) -> set[str]:
    """What was allowed together with a tool call: the agent may now come for it through fs or terminal."""
    named = [*(tool.get("locations") or []), *(tool.get("content") or [])]
    found = {str(one["path"]) for one in named if isinstance(one, dict) and "path" in one}
    given = tool.get("rawInput")
    if isinstance(given, dict):
        found |= {str(given[key]) for key in ("command", "path", "file_path", "filePath") if key in given}
    return found


def by_mode(mode: str, action: str) -> str | None:
    """What the mode says of an action; None when it leaves it to a person."""
    if mode == "approve-all":
        return "allow_all"
    if mode == "deny-all":
        return "deny"
    return "allow" if action in READING else None


def decide(live: Live, request_id: str, verdict: str, decided_by: str) -> dict[str, Any]:
    """Settle a waiting request: record the decision, then tell the agent."""
    if request_id not in live.asked:
        raise PermissionUnknown(request_id)
    request = live.asked.pop(request_id)
    request.timer.cancel()
    option = _choose(verdict, request.options)
    decision = "cancelled" if option is None else "allowed" if verdict.startswith("allow") else "denied"
    with live.batch():
        live.record(
            "permission",
            turn_id=request.turn_id,
            request_id=request_id,
            action=request.action,
            resource=request.resource,
            tool_call_id=request.tool_call_id,
            decision=decision,
            decided_by=decided_by,
        )
        live.db.execute(
            "UPDATE permissions SET status = 'decided', decision = ?, option_id = ?, decided_by = ?, "
            "decided_at = ? WHERE request_id = ?",
            [decision, option["optionId"] if option else None, decided_by, timestamp(), request_id],
        )
        live.then(lambda: request.finish(option))
        live.then(live.show_activity)
    return {"request_id": request_id, "decision": decision}


def decide_verb(live: Live, request: dict[str, Any], answer: Answer) -> None:
    """The verb `decide`: a person's answer, to the request named or to the oldest that waits."""
    request_id = request.get("request_id") or next(iter(live.asked), None)
    if request_id is None:
        raise PermissionUnknown("(none waits)")
    answer(decide(live, str(request_id), str(request["verdict"]), str(request.get("by") or "user")))


def cancel_all(live: Live, decided_by: str) -> None:
    for request_id in list(live.asked):
        decide(live, request_id, "cancel", decided_by)


def _expire(live: Live, request_id: str) -> None:
    if request_id in live.asked:
        decide(live, request_id, "deny", decided_by="timeout")


def _choose(verdict: str, options: list[dict[str, Any]]) -> dict[str, Any] | None:
    for kind in _MEANT[verdict]:
        for option in options:
            if option.get("kind") == kind:
                return option
    return None
