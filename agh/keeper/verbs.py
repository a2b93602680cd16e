"""What commands can ask of a keeper: the verbs of the control socket."""

from __future__ import annotations

import os
from typing import Any

from agh import __version__
from agh.errors import SessionStopping
from agh.keeper import attach, options, permissions, queue, stop, turns
from agh.keeper.control import Answer, Handler
from agh.keeper.live import Live


def verbs(live: Live) -> dict[str, Handler]:
    def hello(request: dict[str, Any], answer: Answer) -> None:
        if live.ending is not None:
            raise SessionStopping(live.session_id)
        answer(describe(live))

    return {
        "hello": hello,
        "prompt": lambda request, answer: turns.accept(live, request, answer),
        "set": lambda request, answer: options.set_verb(live, request, answer),
        "cancel": lambda request, answer: turns.cancel(live, request, answer),
        "decide": lambda request, answer: permissions.decide_verb(live, request, answer),
        "attach": lambda request, answer: attach.attach(live, request, answer),
        "detach": lambda request, answer: attach.detach(live, request, answer),
        "queue": lambda request, answer: queue.queue_verb(live, request, answer),
        "update": lambda request, answer: update_verb(live, request, answer),
        "stop": lambda request, answer: stop.stop(live, request, answer),
    }


def update_verb(live: Live, request: dict[str, Any], answer: Answer) -> None:
    """The verb `update`: what people may change of a session's metadata while it is live."""
    changes: dict[str, Any] = {key: request[key] for key in ("name", "archived") if key in request}
    if request.get("limits"):
        changes["limits"] = {**(live.meta.get("limits") or {}), **request["limits"]}
    live.update(**changes)
    turns.watch_time(live)
    answer(changes)


def describe(live: Live) -> dict[str, Any]:
    return {
        "session_id": live.session_id,
        "version": __version__,
        "pid": os.getpid(),
        "agent_pid": live.agent.process.pid if live.agent else None,
        "turn_id": live.turn.turn_id if live.turn else None,
        "last_sequence": live.writer.last_sequence,
    }
