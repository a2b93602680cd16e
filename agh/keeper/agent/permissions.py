"""Permission requests: decided beforehand, or kept as a durable row until someone answers.

Promises: a request and its decision are events; no option is selected that the user did not mean (if none
fits, the request is answered as cancelled); an unanswered request is rejected at its timeout. An answer
counts only for the very request that was shown: if the agent changes what the request is about, it becomes
another one. See policy.py for what is decided beforehand.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import orjson

from agh.core.acp.frames import Request
from agh.core.acp.permission import digest, headline
from agh.core.acp.tool_calls import ToolCall, read_tool_call
from agh.core.events import marker, timestamp
from agh.core.named_tuple import NamedTuple
from agh.core.refusal import WITHDRAWN
from agh.core.rules import Asking
from agh.errors import PermissionUnknown
from agh.keeper import hooks
from agh.keeper.agent.policy import Grant, Verdict, decide_beforehand, rules_to_remember, time_to_answer
from agh.keeper.agent.tool_call import Subject, outside_of, subject_of
from agh.keeper.loop import Timer
from agh.keeper.session import Live
from agh.store.rows import insert

REQUEST_CANCELLED = -32800
YES_OR_NO = [
    {"optionId": "allow", "name": "Allow", "kind": "allow_once"},
    {"optionId": "allow-always", "name": "Allow for this session", "kind": "allow_always"},
    {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
    {"optionId": "reject-always", "name": "Reject for this session", "kind": "reject_always"},
]

# Which kinds of option a verdict may select, in order; `always` only when the user said so.
_OPTION_KINDS = {
    "allow": ("allow_once",),
    "allow_all": ("allow_once", "allow_always"),
    "allow_always": ("allow_always",),
    "deny": ("reject_once",),
    "deny_always": ("reject_always",),
    "cancel": (),
}
Finish = Callable[[dict[str, Any] | None], None]


class PendingRequest(NamedTuple):
    """A request that waits for a decision. `finish` gets the selected option, or None for cancelled."""

    request_id: str
    turn_id: str
    subject: Subject
    options: list[dict[str, Any]]
    finish: Finish
    timer: Timer
    deadline: float
    rpc_id: int | str | None
    raw: bytes
    own: ToolCall | None = None  # what the request itself says, without what its tool call says

    @property
    def digest(self) -> str:
        """Return the digest of what is shown of it."""
        return digest(self.request_id, self.subject.fields(), self.options)


def request_permission(live: Live, frame: Request, params: dict[str, Any]) -> None:
    """Inside a batch: take the agent's `session/request_permission`."""
    tool = params["toolCall"]
    options = [option for option in params["options"] if isinstance(option["optionId"], str)]
    if not isinstance(tool, dict) or not isinstance(params["options"], list):
        raise ValueError("toolCall must be an object, options a list")
    title, call_id = tool.get("title"), tool.get("toolCallId")
    if not isinstance(title, str | None) or not isinstance(call_id, str | None):
        raise ValueError("title and toolCallId must be strings")
    own = read_tool_call(tool)
    subject = find_subject(live, own, title, call_id)
    ask_about(live, subject, options, frame.raw, _replies(live, frame.id), frame.id, own=own)


def find_subject(live: Live, own: ToolCall, title: str | None, call_id: str | None) -> Subject:
    """Return what a request is about: what it says itself and what is recorded of its tool call.

    If neither says anything, it is about the tool calls that are open.
    """
    calls = live.turns.current.calls if live.turns.current is not None else {}
    call = calls[call_id].joined(own) if call_id in calls else own
    if call.says_nothing:
        for other in calls.values():
            call = call.joined(other)
    return subject_of(call, live.folders, title, call_id)


def _replies(live: Live, rpc_id: int | str | None) -> Finish:
    agent = live.agent.connected

    def finish(option: dict[str, Any] | None) -> None:
        if option:
            outcome = {"outcome": "selected", "optionId": option["optionId"]}
        else:
            outcome = {"outcome": "cancelled"}
        agent.reply(rpc_id, {"outcome": outcome})

    return finish


def ask(
    live: Live,
    asking: Asking,
    *,
    title: str | None,
    options: list[dict[str, Any]],
    raw: bytes,
    finish: Finish,
    rpc_id: int | str | None,
    diff: Callable[[], str | None] | None = None,
) -> None:
    """Inside a batch: ask for a file or a terminal of ours. `diff` shows a change, if someone is asked."""
    subject = Subject(asking, title, outside=outside_of(asking.paths, live.folders))
    ask_about(live, subject, options, raw, finish, rpc_id, diff=diff)


def ask_about(
    live: Live,
    subject: Subject,
    options: list[dict[str, Any]],
    raw: bytes,
    finish: Finish,
    rpc_id: int | str | None,
    *,
    own: ToolCall | None = None,
    diff: Callable[[], str | None] | None = None,
) -> None:
    """Inside a batch: record the request, and decide it beforehand or let it wait for the user."""
    turn, log = live.turns.current, live.log
    verdict = decide_beforehand(live, subject, ours=options is YES_OR_NO)
    if turn is not None and turn.cancelled:
        verdict.decide("cancel", "cancel")
    if verdict.verdict is None and diff is not None:
        subject = Subject(subject.asking, subject.title, outside=subject.outside, diff=diff())
    request_id = "perm-" + os.urandom(4).hex()
    turn_id = live.turns.current_id
    fields = subject.fields()
    row = {
        "request_id": request_id,
        "turn_id": turn_id,
        "tool_call_id": subject.tool_call_id,
        "status": "pending",
        "action": fields["action"],
        "resource": fields["resource"],
        "title": subject.title,
        "request": orjson.dumps(options).decode(),
        "created_at": timestamp(),
    }
    log.record(
        "permission", turn_id=turn_id, raw=raw, request_id=request_id, **fields, steps=verdict.steps or None
    )
    insert(log.db, "permissions", row)
    limit = time_to_answer(live)
    timer = live.loop.later(limit, lambda: expire(live, request_id)) if limit else Timer(lambda: None)
    deadline = time.monotonic() + (limit or float("inf"))
    live.agent.requests[request_id] = PendingRequest(
        request_id, turn_id, subject, options, finish, timer, deadline, rpc_id, raw, own
    )
    if verdict.verdict is not None:
        decide(live, request_id, verdict.verdict, verdict.decided_by, verdict)
    else:
        log.then(live.show_activity)
        if live.on_early_request is not None:
            log.then(partial(live.on_early_request, request_id))
        shown = {key: fields[key] for key in ("action", "resource", "title", "tool_call_id")}
        log.then(lambda: _run_hooks(live, {"request_id": request_id, **shown}))


def _run_hooks(live: Live, fields: dict[str, Any]) -> None:
    objection = hooks.fire(live, "permission", **fields)
    if objection is not None:
        live.end("hook_stopped", objection)


def decide(
    live: Live,
    request_id: str,
    verdict: str,
    decided_by: str,
    beforehand: Verdict | None = None,
    option_id: str | None = None,
) -> dict[str, Any]:
    """Record the decision on a pending request, then answer the agent."""
    if verdict not in _OPTION_KINDS:
        raise ValueError(f"{verdict!r} is not a verdict")
    if request_id not in live.agent.requests:
        raise PermissionUnknown(request_id, live.session_id)
    request, log = live.agent.requests.pop(request_id), live.log
    fields = request.subject.fields()
    request.timer.cancel()
    option = select(verdict, request.options, option_id)
    decision = "cancelled" if option is None else "allowed" if is_allowed(option) else "denied"
    with log.batch():
        log.record(
            "permission",
            turn_id=request.turn_id,
            request_id=request_id,
            action=fields["action"],
            resource=fields["resource"],
            tool_call_id=fields["tool_call_id"],
            decision=decision,
            decided_by=decided_by,
            rule=beforehand.rule if beforehand else None,
        )
        log.db.execute(
            "UPDATE permissions SET status = 'decided', decision = ?, option_id = ?, decided_by = ?, "
            "decided_at = ? WHERE request_id = ?",
            [decision, option["optionId"] if option else None, decided_by, timestamp(), request_id],
        )
        if verdict.endswith("_always") and option is not None:
            _remember(live, request.subject.asking, "allow" if decision == "allowed" else "deny")
        turn = live.turns.current
        if turn is not None and (
            decision == "denied" or (decision != "allowed" and decided_by not in WITHDRAWN)
        ):
            turn.is_refused = True
        if decision == "allowed" and request.own is not None and turn is not None:
            turn.grants.append(Grant(request.subject.tool_call_id, request.subject))
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


def expire(live: Live, request_id: str) -> None:
    """Refuse a request whose time is up, and say in the transcript that nobody has answered it."""
    request = live.agent.requests.get(request_id)
    if request is not None:
        summary = f"denied, because nobody answered in time: {headline(request.subject.fields())}"
        with live.log.batch():
            decide(live, request_id, "deny", decided_by="timeout")
            live.log.add(
                marker("permission_timeout", summary, severity="warning", turn=request.turn_id or None)
            )
            live.meta["unanswered_permissions"] = (live.meta.get("unanswered_permissions") or 0) + 1
            live.log.then(lambda: hooks.notify(live, "timeout", request_id=request_id, text=summary))


def select(
    verdict: str, options: list[dict[str, Any]], option_id: str | None = None
) -> dict[str, Any] | None:
    """Return the agent's option that fits a verdict, of several the one with this id; None if none fits."""
    fitting = [option for kind in _OPTION_KINDS[verdict] for option in options if option.get("kind") == kind]
    return next((option for option in fitting if option["optionId"] == option_id), next(iter(fitting), None))
