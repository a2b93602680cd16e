"""What a keeper notifies its user of, and when.

Promises: it never waits for a notifier, which is a process of its own (send.py). It stays quiet while someone
is attached, and about a request that is answered within the grace. Secrets are hidden before anything leaves.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any

import orjson

from agh.core.acp.permission import headline
from agh.core.events import timestamp
from agh.core.parking import local_reset
from agh.core.settings.notify import Notify
from agh.core.status import phase
from agh.core.waiting import GATE_DETAIL
from agh.keeper.leash.spawn import spawn
from agh.keeper.notify.message import compose
from agh.keeper.session import Live

MODULE = "agh.keeper.notify.send"
ENDED_BY_USER = ("completed", "user_canceled", "idle", "shutdown", "paused")
REAP_AFTER = 2.0  # seconds after its limit, a notifier is gone


def plan(live: Live, hook: str, payload: dict[str, Any]) -> None:
    """Notify the user of what happened, now or after the grace, if the settings say so."""
    notify: Notify = live.settings["notify"]
    if not notify.senders:
        return
    if hook in ("permission", "question"):
        request_id = str(payload["request_id"])
        live.loop.later(notify.grace, lambda: _tell_request(live, notify, request_id))
    elif hook == "timeout":
        _tell(live, notify, "needs_you", "got no answer in time", payload["text"], payload["request_id"])
    elif hook == "turn_end":
        _tell_turn(live, notify, payload)
    elif hook == "session_stop":
        _tell_end(live, notify)


def _tell_request(live: Live, notify: Notify, request_id: str) -> None:
    """Notify of a request that still waits."""
    request, question = live.agent.requests.get(request_id), live.agent.questions.get(request_id)
    if request is not None:
        fields = request.subject.fields()
        _tell(live, notify, "needs_you", "asks for permission", headline(fields), request_id)
    elif question is not None:
        _tell(live, notify, "needs_you", "asks a question", question.question["message"], request_id)


def _tell_turn(live: Live, notify: Notify, payload: dict[str, Any]) -> None:
    reason, duration = payload.get("stop_reason"), payload.get("duration_seconds") or 0.0
    if live.activity.needs_login:
        _tell(live, notify, "needs_you", "needs a login", f"agh agent login {live.meta['agent_name']}")
    elif reason == "limited":
        _tell(
            live,
            notify,
            "limited",
            f"is at a usage limit until {local_reset(live.meta)}",
            str(payload.get("error") or ""),
        )
    elif reason == "error":
        _tell(live, notify, "failed", "failed in a turn", str(payload.get("error") or ""))
    elif reason != "cancelled" and duration >= notify.turn_end_after:
        _tell(live, notify, "turn_end", f"ended its turn after {duration:.0f} s", "")


def _tell_end(live: Live, notify: Notify) -> None:
    reason, detail = live.ending.decision or ("error", None)
    end = {"state": "stopped", "stop_reason": reason, "stop_detail": detail}
    if str(detail or "").startswith(GATE_DETAIL) and phase(end) == "paused":
        about = str(detail).removeprefix(GATE_DETAIL)
        _tell(live, notify, "needs_you", "is waiting for your approval", about)
    elif live.ending.failure is not None or phase(end) == "failed":
        summary = (live.ending.failure or {}).get("summary") or detail or reason
        _tell(live, notify, "failed", "failed", str(summary))
    elif reason not in ENDED_BY_USER:
        _tell(live, notify, "stopped", f"stopped: {reason}", str(detail or ""))


def _tell(
    live: Live, notify: Notify, event: str, what: str, text: str, request_id: str | None = None
) -> None:
    """Start the process that notifies, unless nobody wants to know."""
    if event not in notify.events or _is_attended(live):
        return
    message = compose(live.meta, live.redactor, event, what, text, request_id)
    try:
        _start(live, notify, message)
    except OSError:  # no descriptors or no processes left: the session matters more
        pass


def _is_attended(live: Live) -> bool:
    """Tell whether someone holds the session."""
    lease = live.meta.get("attach") or {}
    return bool(lease) and str(lease.get("attach_expires_at")) > timestamp()


def _start(live: Live, notify: Notify, message: dict[str, Any]) -> None:
    """Start a notifier with the message on its standard input. It is short, so the pipe takes all of it."""
    reading, writing = os.pipe()
    try:
        pid = spawn([sys.executable, "-P", "-m", MODULE], os.environ, (reading, 2, 2))
    finally:
        os.close(reading)
    with suppress(BrokenPipeError), open(writing, "wb") as file:
        file.write(orjson.dumps({"notify": notify._asdict(), "message": message}))

    def reap() -> None:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)

    live.loop.later(notify.timeout + REAP_AFTER, reap)
