"""An MCP server on stdio with one tool, `pick_colour`, that asks the user by an elicitation."""

from __future__ import annotations

import json
import sys
from typing import Any

MESSAGE = "Which colour shall the door have?"
SCHEMA = {
    "type": "object",
    "properties": {"colour": {"type": "string", "title": "Colour", "enum": ["green", "white"]}},
    "required": ["colour"],
}
TOOL = {
    "name": "pick_colour",
    "description": "Ask the user for a colour.",
    "inputSchema": {"type": "object", "properties": {}},
    "annotations": {"readOnlyHint": True, "destructiveHint": False, "openWorldHint": False},
}


def main() -> None:
    """Serve one client until it hangs up."""
    calls: list[Any] = []
    for line in sys.stdin:
        message = json.loads(line)
        method, number = message.get("method"), message.get("id")
        if method == "initialize":
            version = message["params"]["protocolVersion"]
            info = {"name": "asking", "version": "1"}
            answer(number, {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info})
        elif method == "tools/list":
            answer(number, {"tools": [TOOL]})
        elif method == "tools/call":
            calls.append(number)
            params = {"mode": "form", "message": MESSAGE, "requestedSchema": SCHEMA}
            send({"id": "question", "method": "elicitation/create", "params": params})
        elif number == "question":
            text = json.dumps(message.get("result") or message.get("error"))
            answer(calls.pop(), {"content": [{"type": "text", "text": f"ANSWERED {text}"}]})
        elif number is not None and method:
            answer(number, {})


def answer(number: Any, result: dict[str, Any]) -> None:
    send({"id": number, "result": result})


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


if __name__ == "__main__":
    main()
