"""Failures as JSON-RPC errors. An error of agh keeps its code, its hint and its details in `data`."""

from __future__ import annotations

from typing import Any

from agh.errors import AghError, DataDamaged

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = (
    -32700,
    -32600,
    -32601,
    -32602,
    -32603,
)
AUTH_REQUIRED, NOT_FOUND = -32000, -32002
_USAGE_EXIT = 2
_CODES = {
    "agent_needs_login": AUTH_REQUIRED,
    "session_not_found": NOT_FOUND,
    "workspace_gone": NOT_FOUND,
    "workspace_not_found": NOT_FOUND,
    "input_too_large": INVALID_PARAMS,
}


class Refusal(Exception):
    """An error that is the answer to a request."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error: dict[str, Any] = {"code": code, "message": message}
        if data is not None:
            self.error["data"] = data


def error_of(failure: BaseException) -> dict[str, Any]:
    """Return the JSON-RPC error for a failure."""
    if isinstance(failure, Refusal):
        return failure.error
    if isinstance(failure, OSError | DataDamaged):
        from agh.keeper.failures import explain

        failure = explain(failure) or failure
    if isinstance(failure, AghError):
        code = _CODES.get(failure.code, INVALID_PARAMS if failure.exit == _USAGE_EXIT else INTERNAL_ERROR)
        hint = f" (try: {failure.hint})" if failure.hint else ""
        return {"code": code, "message": f"{failure.message}{hint}", "data": failure.as_dict()}
    return {"code": INTERNAL_ERROR, "message": f"Internal error: {type(failure).__name__}: {failure}"}


def turn_error(content: dict[str, Any], agent_name: str) -> dict[str, Any]:
    """Return the JSON-RPC error for a turn that failed, from the content of its `error` event."""
    raw = content.get("raw")
    theirs = raw.get("error") if isinstance(raw, dict) else None
    theirs = theirs if isinstance(theirs, dict) else {}
    message = str(content.get("error") or "the turn failed")
    data = {"stop_reason": content.get("stop_reason"), "turn_id": content.get("turn_id")}
    if content.get("failure_kind") == "provider_auth_failure":
        return {
            "code": AUTH_REQUIRED,
            "message": f"{message} (try: agh agent login {agent_name})",
            "data": data,
        }
    code = theirs.get("code")
    return {"code": code if type(code) is int else INTERNAL_ERROR, "message": message, "data": data}
