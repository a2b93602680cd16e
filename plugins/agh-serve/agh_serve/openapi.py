"""The OpenAPI document, made from the table of operations. Pure."""

from __future__ import annotations

from typing import Any

from agh import __version__
from agh.core.events import TYPES
from agh_serve.calls import Operation
from agh_serve.errors import STATUSES
from agh_serve.fields import Field

_NULLABLE_TEXT = {"type": ["string", "null"]}
_SCHEMAS: dict[str, Any] = {
    "Session": {
        "type": "object",
        "description": "meta.json and what follows from it; see `agh session status -o json`.",
        "required": ["id", "state", "phase", "badge", "attachable"],
        "properties": {
            "id": {"type": "string", "pattern": "^sess-[0-9a-z]{8,26}$"},
            "name": _NULLABLE_TEXT,
            "title": _NULLABLE_TEXT,
            "agent_name": _NULLABLE_TEXT,
            "workspace_path": _NULLABLE_TEXT,
            "state": {"type": "string"},
            "phase": {"type": "string"},
            "badge": {"type": "string"},
            "attachable": {"type": "boolean"},
            "stop_reason": _NULLABLE_TEXT,
            "updated_at": _NULLABLE_TEXT,
        },
    },
    "Lease": {
        "type": "object",
        "required": ["attached_to", "attached_at", "attach_expires_at"],
        "properties": {
            "attached_to": {"type": "string"},
            "attached_at": {"type": "string", "format": "date-time"},
            "attach_expires_at": {"type": "string", "format": "date-time"},
        },
    },
    "Event": {
        "type": "object",
        "required": ["id", "session_id", "sequence", "turn_id", "type", "agent_name", "content", "timestamp"],
        "properties": {
            "id": {"type": "string", "pattern": "^evt-[0-9]{6,}$"},
            "session_id": {"type": "string"},
            "sequence": {"type": "integer", "minimum": 1},
            "turn_id": {"type": "string"},
            "type": {"type": "string", "enum": list(TYPES)},
            "agent_name": {"type": "string"},
            "workspace_id": _NULLABLE_TEXT,
            "workspace_path": _NULLABLE_TEXT,
            "content": {"type": "object"},
            "timestamp": {"type": "string"},
        },
    },
    "Turn": {
        "type": "object",
        "required": ["turn_id", "started_at", "ended_at", "stop_reason", "events"],
        "properties": {"events": {"type": "array", "items": {"$ref": "#/components/schemas/Event"}}},
    },
    "Message": {
        "type": "object",
        "required": ["id", "role", "timestamp"],
        "properties": {"role": {"enum": ["user", "assistant", "tool_call", "tool_result", "marker"]}},
    },
    "Error": {
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["code", "message", "hint", "details"],
                "properties": {
                    "code": {"type": "string"},
                    "message": {"type": "string"},
                    "hint": {"type": "string"},
                    "details": {"type": "object"},
                },
            }
        },
    },
}


def openapi(operations: tuple[Operation, ...]) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for operation in operations:
        for prefix in ("/api", "/api/workspaces/{workspace}"):
            described = paths.setdefault(prefix + operation.path, {})
            described[operation.method.lower()] = _describe(operation, prefix)
    return {
        "openapi": "3.1.0",
        "info": {"title": "agh", "version": __version__, "description": "Coding agents as durable sessions."},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": _SCHEMAS,
        },
    }


def _describe(operation: Operation, prefix: str) -> dict[str, Any]:
    places = [name for name in ("workspace", "id") if f"{{{name}}}" in prefix + operation.path]
    about = {
        "workspace": "A workspace: its name, its id or its path.",
        "id": "An id, a prefix of one, or a name.",
    }
    text = {"type": "string", "minLength": 1}
    parameters = [_parameter("path", Field(name, about[name], text, True)) for name in places]
    parameters += [_parameter("query", field) for field in operation.query]
    parameters += [_parameter("header", field) for field in operation.headers]
    name = operation.run.__name__ + ("_in_workspace" if "workspace" in prefix else "")
    made: dict[str, Any] = {
        "operationId": name,
        "summary": operation.about,
        "parameters": parameters,
        "responses": _responses(operation),
    }
    if operation.body is not None:
        schema = {
            "type": "object",
            "properties": {
                field.name: {**field.schema, "description": field.about} for field in operation.body
            },
            "additionalProperties": operation.more,
        }
        if operation.run.__name__ == "send_prompt":
            schema["oneOf"] = [{"required": ["prompt"]}, {"required": ["messages"]}]
        made["requestBody"] = {"required": False, "content": {"application/json": {"schema": schema}}}
    return made


def _responses(operation: Operation) -> dict[str, Any]:
    good = {"description": operation.about, "content": {operation.kind: {"schema": operation.answer}}}
    found: dict[str, Any] = {str(operation.status): good}
    if operation.run.__name__ == "send_prompt":
        schema = {"type": "object", "required": ["input"]}
        found["202"] = {"description": "The receipt.", "content": {"application/json": {"schema": schema}}}
    if operation.run.__name__ == "list_sessions":
        found["304"] = {"description": "Nothing has changed since the answer that If-None-Match names."}
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    for status, about in STATUSES.items():
        found[str(status)] = {"description": about, "content": error}
    return found


def _parameter(place: str, field: Field) -> dict[str, Any]:
    made = {
        "name": field.name,
        "in": place,
        "description": field.about,
        "required": field.required,
        "schema": dict(field.schema),
    }
    return made | ({"style": "form", "explode": True} if field.schema["type"] == "array" else {})
