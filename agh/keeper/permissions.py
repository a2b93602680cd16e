"""Permission requests: decided by the user's rules or mode, or kept as a durable row until someone answers.

Promises: a request and its decision are events; no option is chosen that the user did not mean (no
fitting option offered: the request is answered as cancelled); no mode allows what lies outside the
workspace; an unanswered request is rejected at its timeout.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import orjson

from agh.core import rules
from agh.core.events import timestamp
from agh.core.frames import Request
from agh.core.rules import Asking
from agh.core.updates import tool_name
from agh.errors import PermissionUnknown
from agh.keeper import hooks
from agh.keeper.control import Answer
from agh.keeper.live import Live
from agh.keeper.loop import Timer

REQUEST_CANCELLED = -32800
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
Finish = Callable[[dict[str, Any] | None], None]


class Asked(NamedTuple):
    """A request that waits. `finish` gets the chosen option, or None for cancelled."""

    request_id: str
    turn_id: str
    asking: Asking
    tool_call_id: str | None
    options: list[dict[str, Any]]
    finish: Finish
    timer: Timer
    rpc_id: int | str | None


def asked(live: Live, frame: Request, params: dict[str, Any]) -> None:
    """The agent asks `session/request_permission`."""
    tool = params["toolCall"]
    options = [option for option in params["options"] if isinstance(option["optionId"], str)]
    asking = _asking(tool, live.cwd)
    title, call = tool.get("title"), tool.get("toolCallId")
    if not isinstance(title, str | None) or not isinstance(call, str | None):
        raise ValueError("title and toolCallId are texts")
    agent = live.agent
    assert agent is not None

    def finish(option: dict[str, Any] | None) -> None:
        if live.turn is not None and is_allowed(option):
            live.turn.approved |= {(asking.kind, one) for one in (*asking.paths, asking.command) if one}
        chosen = (
            {"outcome": "selected", "optionId": option["optionId"]} if option else {"outcome": "cancelled"}
        )
        agent.reply(frame.id, {"outcome": chosen})

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
    """Inside a batch: record the request, and decide it beforehand or let it wait for a person."""
    request_id = "perm-" + os.urandom(4).hex()
    turn_id = live.turn.turn_id if live.turn else ""
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
    told = {key: row[key] for key in ("request_id", "action", "resource", "title", "tool_call_id")}
    live.record("permission", turn_id=turn_id, raw=raw, **told)
    live.db.execute(
        f"INSERT INTO permissions ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", list(row.values())
    )
    timer = live.loop.later(live.settings["permissions.timeout"], lambda: _expire(live, request_id))
    live.asked[request_id] = Asked(request_id, turn_id, asking, tool_call_id, options, finish, timer, rpc_id)
    verdict, decided_by = beforehand(live, asking, ours=options is YES_OR_NO)
    if live.turn is not None and live.turn.cancelled:
        verdict, decided_by = "cancel", "cancel"
    if verdict is not None:
        decide(live, request_id, verdict, decided_by)
    else:
        live.then(live.show_activity)
        live.then(lambda: _tell_hooks(live, told))


def _tell_hooks(live: Live, told: dict[str, Any]) -> None:
    objection = hooks.fire(live, "permission", **told)
    if objection is not None:
        live.end("hook_stopped", objection)


def beforehand(live: Live, asking: Asking, *, ours: bool) -> tuple[str | None, str]:
    """What was decided before it was asked, and by what: the session's memory, rules, this turn, the mode.

    `ours` are requests for our own files and terminals: what a person has just allowed the agent's tool
    is allowed there too.
    """
    workspace = live.cwd
    remembered = rules.read_rules(live.meta.get("permission_rules") or [])
    decision = None
    for source, known in (("session", remembered), ("rule", live.settings["permissions.rules"])):
        decision = rules.decide(known, asking, workspace)
        if decision in ("allow", "deny"):
            return ("allow_all" if decision == "allow" else "deny"), source
        if decision is not None:
            break
    if ours and live.turn is not None and (asking.kind, asking.resource) in live.turn.approved:
        return "allow", "this turn"
    if decision == "ask":
        return None, "rule"
    inside = all(is_inside(workspace, path) for path in asking.paths)
    if inside and rules.is_allowed(live.meta.get("allowed_tools") or [], asking, workspace):
        return "allow_all", "allowed_tools"
    mode = str(
        live.meta.get("permissions") or live.record_of_agent.permissions or live.settings["permissions.mode"]
    )
    if mode == "deny-all":
        return "deny", "mode"
    if not inside:
        return None, ""
    if mode == "approve-all":
        return "allow_all", "mode"
    return ("allow" if asking.kind in READING else None), "mode"


def decide(live: Live, request_id: str, verdict: str, decided_by: str) -> dict[str, Any]:
    """Settle a waiting request: record the decision, then tell the agent."""
    if verdict not in _MEANT:
        raise ValueError(f"{verdict!r} is no verdict")
    if request_id not in live.asked:
        raise PermissionUnknown(request_id)
    request = live.asked.pop(request_id)
    request.timer.cancel()
    option = _choose(verdict, request.options)
    decision = "cancelled" if option is None else "allowed" if is_allowed(option) else "denied"
    with live.batch():
        live.record(
            "permission",
            turn_id=request.turn_id,
            request_id=request_id,
            action=request.asking.kind,
            resource=request.asking.resource,
            tool_call_id=request.tool_call_id,
            decision=decision,
            decided_by=decided_by,
        )
        live.db.execute(
            "UPDATE permissions SET status = 'decided', decision = ?, option_id = ?, decided_by = ?, "
            "decided_at = ? WHERE request_id = ?",
            [decision, option["optionId"] if option else None, decided_by, timestamp(), request_id],
        )
        if verdict.endswith("_always") and option is not None:
            _remember(live, request.asking, "allow" if decision == "allowed" else "deny")
        live.then(lambda: request.finish(option))
        live.then(live.show_activity)
    return {"request_id": request_id, "decision": decision}


def decide_verb(live: Live, request: dict[str, Any], answer: Answer) -> None:
    """The verb `decide`: a person's answer, to the request named or to the oldest that waits."""
    request_id = request.get("request_id") or next(iter(live.asked), None)
    if request_id is None:
        raise PermissionUnknown("(none waits)")
    answer(decide(live, str(request_id), str(request["verdict"]), str(request.get("by") or "user")))


def cancel_all(live: Live, decided_by: str, turn_id: str | None = None) -> None:
    """Settle what waits (of one turn, if it is named) as cancelled."""
    for request in list(live.asked.values()):
        if turn_id in (None, request.turn_id):
            decide(live, request.request_id, "cancel", decided_by)


def withdraw(live: Live, rpc_id: Any) -> None:
    """Inside a batch: the agent takes a question back (`$/cancel_request`)."""
    agent = live.agent
    assert agent is not None

    def finish(option: dict[str, Any] | None) -> None:
        agent.refuse(rpc_id, REQUEST_CANCELLED, "cancelled")

    for asked in list(live.asked.values()):
        if asked.rpc_id is not None and asked.rpc_id == rpc_id:
            live.asked[asked.request_id] = asked._replace(finish=finish)
            decide(live, asked.request_id, "cancel", decided_by="agent")


def is_allowed(option: dict[str, Any] | None) -> bool:
    return option is not None and str(option.get("kind")).startswith("allow")


def is_inside(workspace: str, path: str) -> bool:
    """Whether a path lies in the workspace, with links resolved; what is missing counts by its ancestor."""
    root, real = os.path.realpath(workspace), os.path.realpath(path)
    return real == root or real.startswith(root.rstrip("/") + "/")


def _asking(tool: dict[str, Any], workspace: str) -> Asking:
    """What a tool call is about, wherever the agent tells it; a path outside the workspace comes first."""
    kind, given = str(tool.get("kind") or "other"), tool.get("rawInput")
    given = given if isinstance(given, dict) else {}
    named = [one.get("path") for key in ("locations", "content") for one in _dicts(tool.get(key))]
    named += [given.get(key) for key in ("path", "file_path", "filePath")]
    paths = dict.fromkeys(
        os.path.realpath(os.path.join(workspace, path)) for path in named if isinstance(path, str) and path
    )
    command = given.get("command")
    if isinstance(command, list):
        command = " ".join(map(str, command))
    return Asking(
        kind,
        tool_name(tool) or kind,
        tuple(sorted(paths, key=lambda path: is_inside(workspace, path))),
        command if isinstance(command, str) else None,
    )


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _remember(live: Live, asking: Asking, decision: str) -> None:
    """`--always`: the same thing is not asked again in this session."""
    rule = {"decision": decision, "kind": rules.exactly(asking.kind)}
    if asking.command is not None:
        rule["command"] = rules.exactly(asking.command)
    if not asking.paths and asking.command is None and asking.name:
        rule["name"] = rules.exactly(asking.name)
    made = [rule | {"path": rules.exactly(path)} for path in asking.paths] or [rule]
    known = live.meta.get("permission_rules") or []
    live.then(lambda: live.update(permission_rules=[*known, *made]))


def _expire(live: Live, request_id: str) -> None:
    if request_id in live.asked:
        decide(live, request_id, "deny", decided_by="timeout")


def _choose(verdict: str, options: list[dict[str, Any]]) -> dict[str, Any] | None:
    for kind in _MEANT[verdict]:
        for option in options:
            if option.get("kind") == kind:
                return option
    return None
