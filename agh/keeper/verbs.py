"""What commands can ask of a keeper: the verbs of the control socket."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from agh import __version__
from agh.errors import SessionStarting, SessionStopping
from agh.keeper import ending, lease
from agh.keeper.agent import options, permissions
from agh.keeper.server import Answer, Handler
from agh.keeper.session import Live
from agh.keeper.turns import queue, turn


def verbs(live: Live) -> dict[str, Handler]:
    def hello(request: dict[str, Any], answer: Answer) -> None:
        if live.ending is not None:
            raise SessionStopping(live.session_id)
        answer(describe(live))

    def when_ready(handler: Callable[[Live, dict[str, Any], Answer], None]) -> Handler:
        def handle(request: dict[str, Any], answer: Answer) -> None:
            if not live.ready:
                raise SessionStarting(live.session_id)
            handler(live, request, answer)

        return handle

    return {
        "hello": when_ready(lambda live, request, answer: hello(request, answer)),
        "prompt": when_ready(turn.accept),
        "set": when_ready(options.set_verb),
        "cancel": when_ready(turn.cancel),
        "decide": when_ready(permissions.decide_verb),
        "attach": when_ready(lease.attach),
        "detach": when_ready(lease.detach),
        "queue": when_ready(queue.queue_verb),
        "update": when_ready(update_verb),
        "stop": lambda request, answer: ending.stop(live, request, answer),
    }


def update_verb(live: Live, request: dict[str, Any], answer: Answer) -> None:
    """The verb `update`: what people may change of a session's metadata while it is live."""
    allowed = ("name", "archived", "permissions")
    changes: dict[str, Any] = {key: request[key] for key in allowed if key in request}
    if request.get("limits"):
        changes["limits"] = {**(live.meta.get("limits") or {}), **request["limits"]}
    live.update(**changes)
    turn.watch_time(live)
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
