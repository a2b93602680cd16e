"""Tool calls of the stand-in, in the terms of the tools that an agent offers."""

from __future__ import annotations

import shlex
from typing import Any

from tests.real_agents import messages

Tools = dict[str, dict[str, Any]]  # the schema of each tool's arguments, by its name
Call = tuple[str, dict[str, Any]]

_PATHS = ("filePath", "file_path", "path")
_SHELLS = ("exec_command", "shell_command", "shell", "bash", "run_shell_command", "developer__shell")
_QUESTIONS = ("askuserquestion", "ask_user_question", "ask_user", "question", "request_user_input")
_ESCALATED = {"sandbox_permissions": "require_escalated", "justification": "to see what happens"}


def call_for(directives: dict[str, str], tools: Tools) -> Call | None:
    """Return the call that a prompt's directives ask for, if any."""
    if "write" in directives:
        return call_to_write(tools, *directives["write"].split(" ", 1))
    if "run" in directives:
        return call_to_run(tools, directives["run"])
    if "ask" in directives:
        return call_to_ask(tools)
    if "use" in directives:
        return next(((name, {}) for name in tools if name.endswith(directives["use"])), None)
    return None


def call_to_write(tools: Tools, name: str, text: str) -> Call:
    for tool, schema in tools.items():
        properties = schema.get("properties", {})
        path = next((key for key in _PATHS if key in properties), "")
        if path and "content" in properties:
            return tool, _complete(schema, {path: name, "content": text})
    return call_to_run(tools, f"printf %s {shlex.quote(text)} > {shlex.quote(name)}")


def call_to_run(tools: Tools, command: str) -> Call:
    """Return the call that runs a command; outside the sandbox, where the tool has one."""
    names = {name.lower(): name for name in tools}
    tool = next((names[shell] for shell in _SHELLS if shell in names), "shell")
    schema = tools.get(tool, {})
    properties = schema.get("properties", {})
    key = next((name for name in ("cmd", "command") if name in properties), "command")
    is_list = properties.get(key, {}).get("type", "array") == "array"
    arguments = {key: ["sh", "-c", command] if is_list else command}
    escalated = _ESCALATED if "sandbox_permissions" in properties or not properties else {}
    return tool, _complete(schema, {**arguments, **escalated})


def call_to_ask(tools: Tools) -> Call | None:
    """Return the call of the agent's tool for questions; None if it offers none."""
    tool = next((name for name in tools if name.lower() in _QUESTIONS), None)
    if tool is None:
        return None
    (question,) = messages.QUESTION["questions"]
    item = tools[tool].get("properties", {}).get("questions", {}).get("items", {})
    return tool, _complete(tools[tool], {"questions": [_complete(item, question)]})


def _complete(schema: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Add something of the right type for each required argument that is missing; drop what is unknown."""
    properties: dict[str, Any] = schema.get("properties", {})
    fillers = {"boolean": False, "integer": 1, "number": 1, "array": [], "object": {}}
    missing = {
        name: (properties[name].get("enum") or [fillers.get(properties[name].get("type"), "colour")])[0]
        for name in schema.get("required", [])
        if name not in arguments and name in properties
    }
    return {**{key: arguments[key] for key in arguments if key in properties or not properties}, **missing}
