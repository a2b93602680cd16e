"""Why a turn failed, as an error that names the command to run next."""

from __future__ import annotations

from typing import Any

from agh.console.when import clock
from agh.core.acp.reasons import says_no_model, says_no_network
from agh.core.parking import NOT_PARKED
from agh.core.refusal import Refusal
from agh.errors import (
    AgentNeedsLogin,
    AghError,
    PermissionRefused,
    SessionLimited,
    TurnFailed,
    TurnInterrupted,
    TurnTimedOut,
)
from agh.home import Session
from agh.store.views import session_view


def failure_of(session: Session, input_id: int, end: dict[str, Any], refusal: Refusal | None) -> AghError:
    """Return the error for a turn that ended with the event `end`, or for want of a permission."""
    error, stop_reason = end.get("error"), str(end.get("stop_reason") or "")
    if refusal is not None:
        return _refused(refusal, session, error)
    if stop_reason == "limited":
        return limited(session, str(end.get("resumes_at")))
    if end.get("failure_kind") == "usage_limit":
        until = clock(str(end.get("resets_at")))
        hint = f"it resets at {until}; {_how_to_wait(session, input_id, str(error))}"
        return TurnFailed(f"agent {session_view(session).get('agent_name')}: {error}", hint=hint)
    if end.get("failure_kind") == "provider_auth_failure":
        return _needs_login(session, str(error))
    if end.get("failure_kind") == "timeout":
        return TurnTimedOut(session.id, str(error))
    if stop_reason == "interrupted":
        reason = str(error or "it was interrupted")
        return TurnInterrupted(session.id, reason, hint=retry_command(session, input_id))
    reason = str(error or f"the turn ended early: {stop_reason}")
    hint = _find_hint(session, input_id, reason)
    if error and stop_reason == "error":
        reason = f"agent {session_view(session).get('agent_name')}: {error}"
    return TurnFailed(reason, hint=hint)


def limited(session: Session, resumes_at: str) -> SessionLimited:
    """Return the error for a prompt that waits for the reset of a usage limit."""
    return SessionLimited(session.id, clock(resumes_at), resumes_at=resumes_at)


def retry_command(session: Session, input_id: int) -> str:
    """Return the command that sends a prompt again, which agh never does by itself."""
    return f"agh session queue retry {session.id} {input_id}"


def _find_hint(session: Session, input_id: int, reason: str) -> str:
    if says_no_model(reason):
        return f"choose another model: agh session set {session.id} model=NAME"
    if says_no_network(reason):
        return f"check the network, then: {retry_command(session, input_id)}"
    return f"agh session events {session.id} --last 5"


def _how_to_wait(session: Session, input_id: int, error: str) -> str:
    """Say how to send a prompt that met a usage limit so that it waits; or after it, if it could not."""
    command = retry_command(session, input_id)
    return f"then send it again: {command}" if NOT_PARKED in error else f"to wait for it: {command} --park"


def _needs_login(session: Session, reason: str) -> AgentNeedsLogin:
    metadata = session_view(session)
    agent = metadata.get("agent_name")
    hint = f"correct its API key, or log in: agh agent login {agent}"
    if metadata.get("command"):
        hint = "log in with the agent's own command, then try again"
    return AgentNeedsLogin(agent, reason, hint=hint)


def _refused(refusal: Refusal, session: Session, error: str | None) -> PermissionRefused:
    """Make the error that names what was refused; `error` is what the agent gave as its reason to end."""
    details = {"action": refusal.action, "resource": refusal.resource, "decided_by": refusal.decided_by}
    if error:
        details["error"] = error
    return PermissionRefused(refusal.name, refusal.reason, session.id, **details)
