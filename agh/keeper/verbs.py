"""What commands can request from a keeper: the verbs of the control socket."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from agh import __version__
from agh.core.events import MARKER_REDACTED
from agh.errors import SessionStarting, SessionStopping
from agh.keeper import ending, lease
from agh.keeper.agent import answers, options
from agh.keeper.server import Answer, Handler
from agh.keeper.session import Live
from agh.keeper.turns import cancel, prompts, queue, usage
from agh.store.rows import redact_tables


def verbs(live: Live) -> dict[str, Handler]:
    """Return the handler of each verb; until the session is ready, only `stop` and answers are accepted.

    While the agent is waiting for a slot in its place, prompts are accepted, too.
    """

    def when_ready(handler: Callable[[Live, dict[str, Any], Answer], None]) -> Handler:
        def handle(request: dict[str, Any], answer: Answer) -> None:
            if not live.ready:
                raise SessionStarting(live.session_id, waits_for_slot=live.agent.waits_for_slot)
            handler(live, request, answer)

        return handle

    def when_queued(handler: Callable[[Live, dict[str, Any], Answer], None]) -> Handler:
        def handle(request: dict[str, Any], answer: Answer) -> None:
            if not live.ready and not live.agent.waits_for_slot:
                raise SessionStarting(live.session_id)
            handler(live, request, answer)

        return handle

    return {
        "hello": when_ready(hello_verb),
        "prompt": when_queued(prompts.accept),
        "set": when_ready(options.set_verb),
        "cancel": when_ready(cancel.cancel_verb),
        "decide": lambda request, answer: answers.decide_verb(live, request, answer),
        "answer": lambda request, answer: answers.answer_verb(live, request, answer),
        "attach": when_ready(lease.attach),
        "detach": when_ready(lease.detach),
        "queue": when_queued(queue.queue_verb),
        "update": when_ready(update_verb),
        "redact": when_ready(redact_verb),
        "lend": when_ready(lend),
        "lent": when_ready(lent),
        "pass": when_ready(pass_on),
        "stop": lambda request, answer: ending.stop(live, request, answer),
    }


def hello_verb(live: Live, request: dict[str, Any], answer: Answer) -> None:
    """Answer that the session is live, unless it is ending."""
    if live.is_ending:
        raise SessionStopping(live.session_id)
    answer(describe(live))


def update_verb(live: Live, request: dict[str, Any], answer: Answer) -> None:
    """Change what users may change in the metadata of a live session."""
    allowed = ("name", "archived", "permissions")
    changes: dict[str, Any] = {key: request[key] for key in allowed if key in request}
    if "permissions" in changes:
        answers.refuse_own_process(live, request, "change the permissions")
    if request.get("limits"):
        changes["limits"] = {**(live.meta.get("limits") or {}), **request["limits"]}
    live.update(**changes)
    usage.watch_time(live)
    answer(changes)


def redact_verb(live: Live, request: dict[str, Any], answer: Answer) -> None:
    """Record redactions, and hide what else has the text. An agent's own processes may not do that."""
    answers.refuse_own_process(live, request, "redact the record")
    with live.log.batch():
        for fields in request["redactions"]:
            live.log.record(MARKER_REDACTED, **fields)
        redact_tables(live.log.db, request["turn_ids"], request["call_ids"], request["question_ids"])
        live.log.then(lambda: live.update(**request["metadata"]))
    answer({})


def lend(live: Live, request: dict[str, Any], answer: Answer) -> None:
    """Take the offer of an editor to lend its files and terminals to the agent."""
    from agh.keeper.lending import lend_verb

    lend_verb(live, request, answer)


def lent(live: Live, request: dict[str, Any], answer: Answer) -> None:
    """Take what an editor has done for the agent."""
    from agh.keeper.lending import lent_verb

    lent_verb(live, request, answer)


def pass_on(live: Live, request: dict[str, Any], answer: Answer) -> None:
    """Pass on what an editor asks of the agent, and agh does not know."""
    from agh.keeper.lending import pass_verb

    pass_verb(live, request, answer)


def describe(live: Live) -> dict[str, Any]:
    """Return the answer to `hello`."""
    agent = live.agent.connection
    return {
        "session_id": live.session_id,
        "version": __version__,
        "pid": os.getpid(),
        "agent_pid": agent.process.pid if agent else None,
        "turn_id": live.turns.current_id or None,
        "last_sequence": live.log.last_sequence,
    }
