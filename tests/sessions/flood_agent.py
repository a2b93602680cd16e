"""An agent that answers the prompt `flood` with 100,000 identical tool updates, as fast as they are taken."""

import json
import sys

COUNT = 100_000
Fields = dict[str, object]


def text_of(message: Fields) -> str:
    return json.dumps({"jsonrpc": "2.0", **message}) + "\n"


def update(kind: str, status: str) -> str:
    told = {"sessionUpdate": kind, "toolCallId": "call-1", "title": "Build", "status": status}
    return text_of({"method": "session/update", "params": {"sessionId": "only", "update": told}})


def answer(method: str, params: str) -> Fields:
    if method == "initialize":
        return {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []}
    if method == "session/prompt":
        sys.stdout.write(update("tool_call", "in_progress"))
        for _ in range(COUNT // 1000 if "flood" in params else 0):
            sys.stdout.write(update("tool_call_update", "in_progress") * 1000)
        sys.stdout.write(update("tool_call_update", "completed"))
        return {"stopReason": "end_turn"}
    return {"sessionId": "only"}


def main() -> None:
    for line in sys.stdin:
        frame = json.loads(line)
        if "id" in frame:
            result = answer(frame["method"], json.dumps(frame.get("params")))
            sys.stdout.write(text_of({"id": frame["id"], "result": result}))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
