"""Permission requests: decided beforehand, or kept as a durable row until someone answers.

Promises: a request and its decision are events; no option is selected that the user did not mean (if none
fits, the request is answered as cancelled); an unanswered request is rejected at its timeout. See policy.py
for what is decided beforehand.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import orjson

from agh.core.acp.frames import Request
from agh.core.events import timestamp
from agh.core.rules import Asking
from agh.errors import PermissionUnknown
from agh.keeper import hooks
from agh.keeper.agent.policy import decide_beforehand, rules_to_remember
from agh.keeper.agent.tool_call import read_tool_call
from agh.keeper.loop import Timer
from agh.keeper.server import Answer
from agh.keeper.session import Live
from agh.store.rows import insert

REQUEST_CANCELLED = -32800
YES_OR_NO = [
    {"optionId": "allow", "name": "Allow", "kind": "allow_once"},
    {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
]

# Which kinds of option a verdict may select, in order; `always` only when the user said so.
_OPTION_KINDS = {
    "allow": ("allow_once",),
    "allow_all": ("allow_once", "allow_always"),
    "allow_always": ("allow_always", "allow_once"),
    "deny": ("reject_once",),
    "deny_always": ("reject_always", "reject_once"),
    "cancel": (),
}
Finish = Callable[[dict[str, Any] | None], None]


class PendingRequest(NamedTuple):
    """A request that waits for a decision. `finish` gets the selected option, or None for cancelled."""

    request_id: str
    turn_id: str
    asking: Asking
    tool_call_id: str | None
    options: list[dict[str, Any]]
    finish: Finish
    timer: Timer
    rpc_id: int | str | None


def request_permission(live: Live, frame: Request, params: dict[str, Any]) -> None:
    """Inside a batch: take the agent's `session/request_permission`."""
    tool = params["toolCall"]
    options = [option for option in params["options"] if isinstance(option["optionId"], str)]
    if not isinstance(tool, dict) or not isinstance(params["options"], list):
        raise ValueError("toolCall is an object, options are a list")
    asking = read_tool_call(tool, live.cwd)
    title, call = tool.get("title"), tool.get("toolCallId")
    if not isinstance(title, str | None) or not isinstance(call, str | None):
        raise ValueError("title and toolCallId are texts")
    agent = live.agent.connected

    def finish(option: dict[str, Any] | None) -> None:
        turn = live.turns.current
        if turn is not None and is_allowed(option):
            resources = [resource for resource in (*asking.paths, asking.command) if resource]
            turn.approved |= {(asking.kind, resource) for resource in resources}
        if option:
            outcome = {"outcome": "selected", "optionId": option["optionId"]}
        else:
            outcome = {"outcome": "cancelled"}
        agent.reply(frame.id, {"outcome": outcome})

    ask(
        live,
        asking,
        title=title,
        tool_call_id=call,
        options=options,
        raw=frame.raw,
        finish=finish,
        rpc_id=frame.id,
    )


def ask(
    live: Live,
    asking: Asking,
    *,
    title: str | None,
    options: list[dict[str, Any]],
    raw: bytes,
    finish: Finish,
    rpc_id: int | str | None,
    tool_call_id: str | None = None,
) -> None:
    """Inside a batch: record the request, and decide it beforehand or let it wait for the user."""
    turn, log = live.turns.current, live.log
    request_id = "perm-" + os.urandom(4).hex()
    turn_id = live.turns.current_id
    row = {
        "request_id": request_id,
        "turn_id": turn_id,
        "tool_call_id": tool_call_id,
        "status": "pending",
        "action": asking.kind,
        "resource": asking.resource,
        "title": title,
        "request": orjson.dumps(options).decode(),
        "created_at": timestamp(),
    }
    fields = {key: row[key] for key in ("request_id", "action", "resource", "title", "tool_call_id")}
    log.record("permission", turn_id=turn_id, raw=raw, **fields)
    insert(log.db, "permissions", row)
    timer = live.loop.later(live.settings["permissions.timeout"], lambda: _expire(live, request_id))
    live.agent.requests[request_id] = PendingRequest(
        request_id, turn_id, asking, tool_call_id, options, finish, timer, rpc_id
    )
    verdict, decided_by = decide_beforehand(live, asking, ours=options is YES_OR_NO)
    if turn is not None and turn.cancelled:
        verdict, decided_by = "cancel", "cancel"
    if verdict is not None:
        decide(live, request_id, verdict, decided_by)
    else:
        log.then(live.show_activity)
        log.then(lambda: _run_hooks(live, fields))


def _run_hooks(live: Live, fields: dict[str, Any]) -> None:
    objection = hooks.fire(live, "permission", **fields)
    if objection is not None:
        live.end("hook_stopped", objection)


def decide(live: Live, request_id: str, verdict: str, decided_by: str) -> dict[str, Any]:
    """Record the decision on a pending request, then answer the agent."""
    if verdict not in _OPTION_KINDS:
        raise ValueError(f"{verdict!r} is no verdict")
    if request_id not in live.agent.requests:
        raise PermissionUnknown(request_id)
    request, log = live.agent.requests.pop(request_id), live.log
    request.timer.cancel()
    option = _select(verdict, request.options)
    decision = "cancelled" if option is None else "allowed" if is_allowed(option) else "denied"
    with log.batch():
        log.record(
            "permission",
            turn_id=request.turn_id,
            request_id=request_id,
            action=request.asking.kind,
            resource=request.asking.resource,
            tool_call_id=request.tool_call_id,
            decision=decision,
            decided_by=decided_by,
        )
        log.db.execute(
            "UPDATE permissions SET status = 'decided', decision = ?, option_id = ?, decided_by = ?, "
            "decided_at = ? WHERE request_id = ?",
            [decision, option["optionId"] if option else None, decided_by, timestamp(), request_id],
        )
        if verdict.endswith("_always") and option is not None:
            _remember(live, request.asking, "allow" if decision == "allowed" else "deny")
        log.then(lambda: _finish(live, request, option))
        log.then(live.show_activity)
    return {"request_id": request_id, "decision": decision}


def _remember(live: Live, asking: Asking, decision: str) -> None:
    """Inside a batch, for `--always`: do not ask for the same thing again in this session."""
    remembered = [*(live.meta.get("permission_rules") or []), *rules_to_remember(asking, decision)]
    live.log.then(lambda: live.update(permission_rules=remembered))


def _finish(live: Live, request: PendingRequest, option: dict[str, Any] | None) -> None:
    """Answer the request; if the agent cannot get the outcome, send it an error instead of silence."""
    if live.agent.connection is None or request.rpc_id is None:
        request.finish(option)
    else:
        live.agent.connection.answer(request.rpc_id, lambda: request.finish(option))


def decide_verb(live: Live, request: dict[str, Any], answer: Answer) -> None:
    """Decide the pending request that is named, or the oldest."""
    request_id = request.get("request_id") or next(iter(live.agent.requests), None)
    if request_id is None:
        raise PermissionUnknown("(none waits)")
    answer(decide(live, str(request_id), str(request["verdict"]), str(request.get("by") or "user")))


def cancel_all(live: Live, decided_by: str, turn_id: str | None = None) -> None:
    """Cancel the pending requests, or only those of a turn if it is named."""
    for request in list(live.agent.requests.values()):
        if turn_id in (None, request.turn_id):
            decide(live, request.request_id, "cancel", decided_by)


def withdraw(live: Live, rpc_id: Any) -> None:
    """Inside a batch: cancel a request that the agent takes back (`$/cancel_request`)."""
    agent, requests = live.agent.connected, live.agent.requests

    def finish(option: dict[str, Any] | None) -> None:
        agent.refuse(rpc_id, REQUEST_CANCELLED, "cancelled")

    for request in list(requests.values()):
        if request.rpc_id is not None and request.rpc_id == rpc_id and type(rpc_id) is type(request.rpc_id):
            requests[request.request_id] = request._replace(finish=finish)
            decide(live, request.request_id, "cancel", decided_by="agent")


def is_allowed(option: dict[str, Any] | None) -> bool:
    return option is not None and str(option.get("kind")).startswith("allow")


def _expire(live: Live, request_id: str) -> None:
    if request_id in live.agent.requests:
        decide(live, request_id, "deny", decided_by="timeout")


def _select(verdict: str, options: list[dict[str, Any]]) -> dict[str, Any] | None:
    for kind in _OPTION_KINDS[verdict]:
        for option in options:
            if option.get("kind") == kind:
                return option
    return None
