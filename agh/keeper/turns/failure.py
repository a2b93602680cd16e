"""What kind of failure ended a turn or a start: the `failure_kind` of its last event.

A turn that agh cancelled because it took too long has one even if the agent ended it in good order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agh.core.acp.transient import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND
from agh.errors import AgentNeedsLogin, AghError, PlaceGone, StoreFailed, TimedOut
from agh.keeper.agent.connection import RpcError
from agh.keeper.session import Live, Turn

PARSE_ERROR = -32700
_PROTOCOL_CODES = (PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS)


def describe_failure(live: Live, turn: Turn, status: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Inside a batch: return the fields of the end of a turn that failed or was cancelled, with the kind."""
    if why := _time_limit(live, turn):
        return {**fields, "failure_kind": "timeout", "error": fields.get("error") or f"timed out: {why}"}
    if status != "failed" or fields.get("failure_kind"):
        return fields
    if live.ending.failure is not None:
        return {**fields, "failure_kind": live.ending.failure["kind"]}
    if fields.get("stop_reason") == "interrupted":
        return fields
    kind = "permission_failure" if turn.is_refused else "prompt_failure"
    return {**fields, "failure_kind": kind}


def kind_of_error(error: Mapping[str, Any]) -> str | None:
    """Return `protocol_failure` for an error that says that a message was not understood; else None."""
    return "protocol_failure" if error.get("code") in _PROTOCOL_CODES else None


def kind_of_end(live: Live, error: AghError) -> str:
    """Return the kind of failure if the agent is gone: the session's, or that of the broken connection."""
    if live.ending.failure is not None:
        return live.ending.failure["kind"]
    return "transport_failure" if isinstance(error, PlaceGone) else "process_exit"


def _time_limit(live: Live, turn: Turn) -> str | None:
    """Return why agh cancelled the turn, if it took too long."""
    if turn.timed_out is not None:
        return turn.timed_out[1]
    pause = live.turns.pause_after
    return pause[1] if pause is not None and pause[0] == "timeout" and turn.cancelled else None


def kind_of_start(error: AghError) -> str:
    """Return the kind of failure that a failed start is recorded as."""
    if isinstance(error, TimedOut):
        return "timeout"
    if isinstance(error, StoreFailed):
        return "store_failure"
    if kind := error.details.get("failure_kind"):
        return str(kind)
    if isinstance(error, PlaceGone):
        return "transport_failure"
    if isinstance(error, AgentNeedsLogin):
        return "provider_auth_failure"
    if isinstance(error, RpcError):
        return "handshake_failure"
    if error.code in ("restore_failed", "context_lost"):
        return "load_session_failure"
    return "startup_failure"
