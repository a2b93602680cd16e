"""Answers that come from outside, to permission requests and questions: by a command, a terminal, the page.

Promises: an answer names its request, counts only for what was shown, only in time, and only if the agent
offers it; to a question, only if it fits the form. An answer from the agent's own processes is refused and
recorded, unless the session allows it.
"""

from __future__ import annotations

import os
import time
from typing import Any

import orjson

from agh.core.acp.permission import offered
from agh.core.acp.question import as_prompt
from agh.errors import (
    PermissionChanged,
    PermissionNotOffered,
    PermissionSelfAnswered,
    PermissionUnknown,
    QuestionUnknown,
    SessionStarting,
    Usage,
)
from agh.keeper.agent import questions
from agh.keeper.agent.permissions import decide, expire, select
from agh.keeper.agent.questions import count_orphaned, read_content, record_decision
from agh.keeper.leash import ancestry
from agh.keeper.server import Answer
from agh.keeper.session import Live
from agh.keeper.turns import prompts

VERDICTS = ("allow", "allow_always", "deny", "deny_always")
DECISIONS = ("accepted", "declined", "cancelled")  # of a question


def decide_verb(live: Live, request: dict[str, Any], answer: Answer) -> None:
    """Decide the pending request that is named."""
    request_id, verdict = request.get("request_id"), str(request["verdict"])
    if not isinstance(request_id, str) or not request_id:
        raise Usage("name the request to answer", hint=f"agh session permissions {live.session_id}")
    if verdict not in VERDICTS:
        raise ValueError(f"{verdict!r} is not a verdict")
    refuse_own_process(live, request, f"answer {request_id}")
    pending = live.agent.requests.get(request_id)
    if pending is not None and time.monotonic() >= pending.deadline:
        expire(live, request_id)
        pending = None
    if pending is None:
        raise PermissionUnknown(request_id, live.session_id)
    if request.get("digest") not in (None, pending.digest):
        raise PermissionChanged(request_id, live.session_id)
    if verdict != "deny" and select(verdict, pending.options) is None:
        offers = ", ".join(offered(pending.options)) or "no answer that agh knows"
        answers = repr(verdict.replace("_", " ")), offers.replace("_", " ")
        raise PermissionNotOffered(request_id, *answers, live.session_id)
    by, option_id = str(request.get("by") or "user"), request.get("option_id")
    answer(decide(live, request_id, verdict, by, option_id=option_id))


def answer_verb(live: Live, request: dict[str, Any], answer: Answer) -> None:
    """Answer the question that is named, pending or orphaned."""
    request_id, decision = request.get("request_id"), str(request["decision"])
    if not isinstance(request_id, str) or not request_id:
        raise Usage("name the question to answer", hint=f"agh session questions {live.session_id}")
    if decision not in DECISIONS:
        raise ValueError(f"{decision!r} is not one of {', '.join(DECISIONS)}")
    refuse_own_process(live, request, f"answer {request_id}")
    pending = live.agent.questions.get(request_id)
    if pending is not None and time.monotonic() >= pending.deadline:
        questions.expire(live, request_id)
        raise QuestionUnknown(request_id, live.session_id)
    if pending is None:
        _answer_orphaned(live, request, answer)
        return
    content = read_content(live.session_id, pending.question, request) if decision == "accepted" else None
    answer(questions.close(live, request_id, decision, str(request.get("by") or "user"), content))


def _answer_orphaned(live: Live, request: dict[str, Any], answer: Answer) -> None:
    """Send the answer to an orphaned question, and the question itself, as a prompt."""
    if not live.ready:
        raise SessionStarting(live.session_id)
    request_id, decision = str(request["request_id"]), str(request["decision"])
    row = live.log.db.execute(
        "SELECT turn_id, request FROM questions WHERE request_id = ? AND status = 'orphaned'", [request_id]
    ).fetchone()
    if row is None:
        raise QuestionUnknown(request_id, live.session_id)
    turn_id, question = row[0], orjson.loads(row[1])
    content = read_content(live.session_id, question, request) if decision == "accepted" else None
    receipt = {"request_id": request_id, "decision": decision, "answer": content}
    with live.log.batch():
        if content is not None:
            blocks = [{"type": "text", "text": as_prompt(question, content)}]
            prompt = {"prompt": blocks, "idempotency_key": f"answer-{request_id}"}
            prompts.accept(live, prompt, lambda input: answer({**receipt, "input": input}))
        record_decision(live, request_id, turn_id, decision, str(request.get("by") or "user"), content)
        count_orphaned(live, -1)
        live.log.then(live.show_activity)
        if content is None:
            live.log.then(lambda: answer(receipt))


def refuse_own_process(live: Live, request: dict[str, Any], act: str) -> None:
    """Refuse a request that comes from the agent's own processes, and record it."""
    pid = request.get("peer_pid")
    if live.meta.get("allow_self_answers") or not is_own_process(live, pid):
        return
    text = f"a process of the agent tried to {act}, and was refused (pid {pid})"
    with live.log.batch():
        live.log.record("runtime_warning", turn_id=live.turns.current_id, text=text)
    raise PermissionSelfAnswered(live.session_id)


def is_own_process(live: Live, pid: Any) -> bool:
    """Tell whether a process was started by the agent or in one of its terminals; hooks are the user's."""
    if not isinstance(pid, int) or not os.path.isdir("/proc/self"):
        return False  # the system does not say
    agent, agents, hooks = live.agent, set(), {hook.leash_pid for hook in live.hooks}
    if agent.connection is not None:
        agents.add(agent.connection.process.leash_pid)
    agents |= {terminal.process.leash_pid for terminal in agent.terminals.values()}
    lineage = ancestry.lineage(pid)
    for ancestor in lineage:
        if ancestor in hooks or ancestor in agents:
            return ancestor in agents
    return not lineage or ancestry.carries(pid, str((live.meta.get("launch") or {}).get("cookie")))
