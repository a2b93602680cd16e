"""An agent that plays the scenes of story.py over ACP. Its argument is its name in the pictures."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from tools.pictures.story import MODELS, SCENES, Step

OPTIONS = [
    {"optionId": "once", "name": "Yes", "kind": "allow_once"},
    {"optionId": "always", "name": "Yes, and all edits of this session", "kind": "allow_always"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]
STATES = ("pending", "in_progress", "completed")


def main() -> None:
    """Answer one request after the other until the client goes away."""
    directory = "."
    for line in sys.stdin:
        request = json.loads(line)
        params = request.get("params") or {}
        if request.get("method") == "initialize":
            _answer(request, {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []})
        elif request.get("method") == "session/new":
            directory = params["cwd"]
            model = MODELS[sys.argv[1]]
            models = {"currentModelId": model, "availableModels": [{"modelId": model, "name": model}]}
            _answer(request, {"sessionId": "s1", "models": models})
        elif request.get("method") == "session/prompt":
            text = "".join(block.get("text", "") for block in params["prompt"])
            _play(request, SCENES[text], directory)
        elif "id" in request and "method" in request:
            _answer(request, {})


def _play(request: dict[str, Any], scene: list[Step], directory: str) -> None:
    for number, (kind, *values) in enumerate(scene):
        call: dict[str, Any] = {"toolCallId": f"call-{number}"}
        if kind in ("say", "think"):
            name = "agent_message_chunk" if kind == "say" else "agent_thought_chunk"
            _update(sessionUpdate=name, content={"type": "text", "text": values[0]})
        elif kind == "plan":
            entries = [
                {"content": words, "priority": "medium", "status": STATES[state]}
                for words, state in values[0]
            ]
            _update(sessionUpdate="plan", entries=entries)
        elif kind in ("tool", "tool_open"):
            _update(sessionUpdate="tool_call", **call, title=values[0], kind=values[1], status="in_progress")
            if kind == "tool":
                content = [{"type": "content", "content": {"type": "text", "text": values[2]}}]
                _update(sessionUpdate="tool_call_update", **call, status="completed", content=content)
        elif kind in ("edit", "ask"):
            title, path, old, new = values
            diff = {"type": "diff", "path": f"{directory}/{path}", "oldText": old, "newText": new}
            call |= {"title": title, "kind": "edit", "content": [diff], "locations": [{"path": diff["path"]}]}
            _update(sessionUpdate="tool_call", **call, status="pending")
            if kind == "ask":
                _send(
                    id=1,
                    method="session/request_permission",
                    params={"sessionId": "s1", "toolCall": call, "options": OPTIONS},
                )
                sys.stdin.readline()
            _update(sessionUpdate="tool_call_update", **call, status="completed")
        elif kind == "usage":
            cost = {"amount": values[1], "currency": "USD"}
            _update(sessionUpdate="usage_update", used=values[0], size=200_000, cost=cost)
        elif kind == "crash":
            sys.exit(values[0])
        elif kind == "wait":
            sys.stdin.read()  # until the client goes away
    _answer(request, {"stopReason": "end_turn"})


def _update(**fields: Any) -> None:
    _send(method="session/update", params={"sessionId": "s1", "update": fields})


def _answer(request: dict[str, Any], result: dict[str, Any]) -> None:
    _send(id=request["id"], result=result)


def _send(**frame: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **frame}), flush=True)


if __name__ == "__main__":
    main()
