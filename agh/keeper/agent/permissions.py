"""Permission requests: decided by the user's rules or mode, or kept as a durable row until someone answers.

Promises: a request and its decision are events; no option is chosen that the user did not mean (no
fitting option offered: the request is answered as cancelled); no mode allows what lies outside the
workspace, or in a directory that agh itself obeys; no rule allows anything in a session whose own mode is
deny-all; an unanswered request is rejected at its timeout.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import orjson

from agh import config
from agh.core import rules
from agh.core.events import timestamp
from agh.core.frames import Request
from agh.core.rules import Asking
from agh.core.updates import tool_name
from agh.errors import PermissionUnknown
from agh.home import MAX_PATH, home_path, real_path
from agh.keeper import hooks
from agh.keeper.loop import Timer
from agh.keeper.server import Answer
from agh.keeper.session import Live

REQUEST_CANCELLED = -32800
MAX_PATHS = 1000
UNRESOLVED = "unresolved:"
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
    if not isinstance(tool, dict) or not isinstance(params["options"], list):
        raise ValueError("toolCall is an object, options are a list")
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
    inside = all(is_open(workspace, path) for path in asking.paths)
    if (
        live.meta.get("permissions") == "deny-all"
    ):  # given with the session, so no rule or memory overrides it
        listed = inside and rules.is_allowed(live.meta.get("allowed_tools") or [], asking, workspace)
        return ("allow_all", "allowed_tools") if listed else ("deny", "mode")
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
        live.then(lambda: _finish(live, request, option))
        live.then(live.show_activity)
    return {"request_id": request_id, "decision": decision}


def _finish(live: Live, request: Asked, option: dict[str, Any] | None) -> None:
    """Tell whoever asked; an agent that cannot be told the outcome gets an error instead of silence."""
    if live.agent is None or request.rpc_id is None:
        request.finish(option)
    else:
        live.agent.answer(request.rpc_id, lambda: request.finish(option))


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
        if asked.rpc_id is not None and asked.rpc_id == rpc_id and type(rpc_id) is type(asked.rpc_id):
            live.asked[asked.request_id] = asked._replace(finish=finish)
            decide(live, asked.request_id, "cancel", decided_by="agent")


def is_allowed(option: dict[str, Any] | None) -> bool:
    return option is not None and str(option.get("kind")).startswith("allow")


def is_inside(workspace: str, path: str) -> bool:
    """Tell whether a path lies in the workspace, with links resolved; what is missing counts by its ancestor.

    What cannot be resolved lies outside. The home of agh is not part of a workspace that happens to hold it:
    what is written there is obeyed.
    """
    root, real, home = real_path(workspace), real_path(path), os.path.realpath(home_path())
    if root is None or real is None:
        return False
    return _is_below(root, real) and (_is_below(home, root) or not _is_below(home, real))


def _is_below(folder: str, path: str) -> bool:
    return f"{path}/".startswith(folder.rstrip("/") + "/")


def is_open(workspace: str, path: str) -> bool:
    """Tell whether a mode may decide about a path: it is in the workspace, but not in its `.agh`."""
    settings = os.path.join(os.path.realpath(workspace), config.WORKSPACE_FOLDER)
    return is_inside(workspace, path) and not _is_below(settings, real_path(path) or "")


def _asking(tool: dict[str, Any], workspace: str) -> Asking:
    """What a tool call is about, wherever the agent tells it; a path outside the workspace comes first."""
    kind, given = str(tool.get("kind") or "other"), tool.get("rawInput")
    given = given if isinstance(given, dict) else {}
    named = [one.get("path") for key in ("locations", "content") for one in _dicts(tool.get(key))]
    named += [given.get(key) for key in ("path", "file_path", "filePath")]
    texts = [os.path.join(workspace, path) for path in named if isinstance(path, str) and path]
    if len(texts) > MAX_PATHS:
        raise ValueError(f"a tool call names {MAX_PATHS} paths at most")
    # One that cannot be resolved must match no rule for a path, and is inside of nothing.
    paths = dict.fromkeys(real_path(text) or UNRESOLVED + text[:MAX_PATH] for text in texts)
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
