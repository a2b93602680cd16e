"""The lease on a live session: a label, and an expiry or a connection whose end is its end.

It keeps users from prompting over each other; the agent does not know of it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from agh.core.events import timestamp
from agh.core.status import badge, describe_holder, is_attachable, is_leased
from agh.errors import SessionNotAttachable
from agh.keeper.server import Answer
from agh.keeper.session import Live

MAX_TTL = 24 * 3600.0


def attach(live: Live, request: dict[str, Any], answer: Answer) -> None:
    """Take the lease, or renew it for the same holder. Without a `ttl` it ends with the connection."""
    holder, now = str(request["holder"]), datetime.now(UTC)
    lease = live.meta.get("attach") or {}
    if not is_attachable(live.meta, timestamp(now), holder) and not request.get("steal"):
        if lease.get("attached_to") not in (None, holder):
            command = "attach" if request.get("ttl") is None else "resume"
            hint = f"agh session {command} {_name(live)} --steal"
            raise SessionNotAttachable(_name(live), f"is in use by {describe_holder(lease, now)}", hint=hint)
        raise SessionNotAttachable(_name(live), f"is {badge(live.meta)}, so you cannot attach to it")
    ttl = request.get("ttl")
    expires_at = None if ttl is None else timestamp(now + timedelta(seconds=min(float(ttl), MAX_TTL)))
    new_lease: dict[str, Any] = {
        "attached_to": holder,
        "attached_at": timestamp(now),
        "attach_expires_at": expires_at,
    }
    with live.log.batch():
        if lease.get("attached_to") != holder:
            live.log.record("session_attached", **new_lease)
        live.log.then(lambda: live.update(attach=new_lease))
    if ttl is None:
        request["when_gone"](lambda: _end(live, new_lease))
    answer({"attach": new_lease})


def _end(live: Live, lease: dict[str, Any]) -> None:
    """End a lease whose connection is gone, unless it has ended or somebody else has taken it."""
    if live.meta.get("attach") == lease and not live.is_ending:
        with live.log.batch():
            live.log.record("session_detached", attached_to=lease["attached_to"])
            live.log.then(lambda: live.update(attach=None))


def _name(live: Live) -> str:
    """Return what a user calls the session."""
    return str(live.meta.get("name") or live.session_id)


def detach(live: Live, request: dict[str, Any], answer: Answer) -> None:
    """Give the lease back, if the caller holds it or forces it."""
    lease = live.meta.get("attach") or {}
    holder = request.get("holder")
    if lease and (request.get("force") or lease.get("attached_to") == holder):
        with live.log.batch():
            live.log.record("session_detached", attached_to=lease.get("attached_to"))
            live.log.then(lambda: live.update(attach=None))
        answer({"detached": lease.get("attached_to")})
    elif is_leased(lease, timestamp(), holder):
        hint = f"agh session detach {_name(live)} --force"
        reason = f"is in use by {describe_holder(lease, datetime.now(UTC))}"
        raise SessionNotAttachable(_name(live), reason, hint=hint)
    else:
        answer({"detached": None})
