"""The OpenAPI document, built from the table of operations. Does no I/O."""

from __future__ import annotations

from typing import Any

from agh import __version__
from agh.core.events import TYPES
from agh_serve.dispatch import Operation
from agh_serve.errors import STATUSES
from agh_serve.fields import Field

_NULLABLE_TEXT = {"type": ["string", "null"]}
_PATH_TEXT = {"type": "string", "minLength": 1}
_PATH_FIELDS = (
    Field("workspace", "A workspace: its name, its id or its path.", _PATH_TEXT, True),
    Field("id", "A session: its id, a prefix of it, or its name.", _PATH_TEXT, True),
)
_SCHEMAS: dict[str, Any] = {
    "Session": {
        "type": "object",
        "description": "The fields of meta.json, and derived ones; see `agh session status -o json`.",
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
            "attach_expires_at": {"type": ["string", "null"], "format": "date-time"},
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


def build_openapi(operations: tuple[Operation, ...]) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for operation in operations:
        for prefix in ("/api", "/api/workspaces/{workspace}"):
            methods = paths.setdefault(prefix + operation.path, {})
            methods[operation.method.lower()] = _describe_operation(operation, prefix)
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


def _describe_operation(operation: Operation, prefix: str) -> dict[str, Any]:
    in_path = [field for field in _PATH_FIELDS if f"{{{field.name}}}" in prefix + operation.path]
    parameters = [_describe_parameter("path", field) for field in in_path]
    parameters += [_describe_parameter("query", field) for field in operation.query]
    parameters += [_describe_parameter("header", field) for field in operation.headers]
    name = operation.handler.__name__ + ("_in_workspace" if "workspace" in prefix else "")
    description: dict[str, Any] = {
        "operationId": name,
        "summary": operation.summary,
        "parameters": parameters,
        "responses": _describe_responses(operation),
    }
    if operation.body is not None:
        schema = {
            "type": "object",
            "properties": {
                field.name: {**field.schema, "description": field.description} for field in operation.body
            },
            "additionalProperties": operation.allows_unknown_members,
        }
        if operation.handler.__name__ == "send_prompt":
            schema["oneOf"] = [{"required": ["prompt"]}, {"required": ["messages"]}]
        content = {"application/json": {"schema": schema}}
        description["requestBody"] = {"required": False, "content": content}
    return description


def _describe_responses(operation: Operation) -> dict[str, Any]:
    content = {operation.media_type: {"schema": operation.response_schema}}
    responses: dict[str, Any] = {
        str(operation.status): {"description": operation.summary, "content": content}
    }
    if operation.handler.__name__ == "send_prompt":
        schema = {"type": "object", "required": ["input"]}
        receipt = {"application/json": {"schema": schema}}
        responses["202"] = {"description": "The receipt.", "content": receipt}
    if operation.handler.__name__ == "list_sessions":
        unchanged = "Nothing has changed since the response that If-None-Match names."
        responses["304"] = {"description": unchanged}
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    for status, meaning in STATUSES.items():
        responses[str(status)] = {"description": meaning, "content": error}
    return responses


def _describe_parameter(location: str, field: Field) -> dict[str, Any]:
    parameter = {
        "name": field.name,
        "in": location,
        "description": field.description,
        "required": field.required,
        "schema": dict(field.schema),
    }
    return parameter | ({"style": "form", "explode": True} if field.schema["type"] == "array" else {})
