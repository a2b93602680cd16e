"""The lease on a live session: a label and an expiry. It keeps users from prompting over each other; the
agent does not know of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from agh.core.events import timestamp
from agh.core.status import badge, is_attachable
from agh.errors import SessionNotAttachable
from agh.keeper.server import Answer
from agh.keeper.session import Live

MAX_TTL = 24 * 3600.0


def attach(live: Live, request: dict[str, Any], answer: Answer) -> None:
    """Take the lease, or renew it for the same holder."""
    holder, now = str(request["holder"]), datetime.now(UTC)
    lease = live.meta.get("attach") or {}
    if not is_attachable(live.meta, timestamp(now), holder) and not request.get("steal"):
        if lease.get("attached_to") not in (None, holder):
            reason = f"{lease['attached_to']} holds it until {lease['attach_expires_at']}"
            hint = f"agh session resume {live.session_id} --steal"
            raise SessionNotAttachable(live.session_id, reason, hint=hint)
        raise SessionNotAttachable(live.session_id, f"it is {badge(live.meta)}")
    ttl = min(float(request["ttl"]), MAX_TTL)
    new_lease: dict[str, Any] = {
        "attached_to": holder,
        "attached_at": timestamp(now),
        "attach_expires_at": timestamp(now + timedelta(seconds=ttl)),
    }
    with live.log.batch():
        if lease.get("attached_to") != holder:
            live.log.record("session_attached", **new_lease)
        live.log.then(lambda: live.update(attach=new_lease))
    answer({"attach": new_lease})


def detach(live: Live, request: dict[str, Any], answer: Answer) -> None:
    """Give the lease back, if the caller holds it or forces it."""
    lease = live.meta.get("attach") or {}
    holder = request.get("holder")
    if lease and (request.get("force") or lease.get("attached_to") == holder):
        with live.log.batch():
            live.log.record("session_detached", attached_to=lease.get("attached_to"))
            live.log.then(lambda: live.update(attach=None))
        answer({"detached": lease.get("attached_to")})
    elif lease and str(lease.get("attach_expires_at")) > timestamp():
        hint = f"agh session detach {live.session_id} --force"
        raise SessionNotAttachable(
            live.session_id, f"{lease['attached_to']} holds it, not {holder}", hint=hint
        )
    else:
        answer({"detached": None})
