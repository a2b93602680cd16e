"""An agent that answers each method as a JSON file says, for what the scripted agent does not do.

Usage: python answering_agent.py FILE. The file maps a method to what to do, in this order:
  `updates`  session/update notifications to send, each an update or {"sessionId": …, "update": …}
  `frames`   other messages to send
  `stderr`, `stdout`   text to write as it is
  `exit`     the exit code to end with, instead of an answer
  `result` or `error`   the answer; {} without either
With `needs_login`, session/new fails with -32000 until FILE.login exists. `authenticate` makes that file, and
so does the program itself when run with --login, which exits with the code `login`; `logout` removes it.
A list of such entries is used one after the other; its last entry for every call after that. Each request is
appended to FILE.log.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

Frame = dict[str, Any]
DEFAULTS: dict[str, Frame] = {
    "initialize": {"result": {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}},
    "session/new": {"result": {"sessionId": "s-1"}},
    "session/prompt": {"result": {"stopReason": "end_turn"}},
}


def send(frame: Frame) -> None:
    os.write(1, json.dumps({"jsonrpc": "2.0", **frame}).encode() + b"\n")


def answer(request: Frame, script: Frame) -> None:
    """Do what the script says for a request."""
    file = f"{sys.argv[1]}.login"
    if request["method"] == "authenticate" and "authenticate" not in script:
        open(file, "w").close()
    if request["method"] == "logout" and os.path.exists(file):
        os.remove(file)
    if script.get("needs_login") and request["method"] == "session/new" and not os.path.exists(file):
        send({"id": request["id"], "error": {"code": -32000, "message": "Authentication required"}})
        return
    entries = script.get(request["method"], DEFAULTS.get(request["method"], {}))
    entry = entries
    if isinstance(entries, list):
        entry = entries.pop(0) if len(entries) > 1 else entries[0]
    session = (request.get("params") or {}).get("sessionId", "s-1")
    for update in entry.get("updates", ()):
        params = update if "update" in update else {"sessionId": session, "update": update}
        send({"method": "session/update", "params": params})
    for frame in entry.get("frames", ()):
        send(frame)
    os.write(2, entry.get("stderr", "").encode())
    os.write(1, entry.get("stdout", "").encode())
    if "exit" in entry:
        os._exit(entry["exit"])
    if "id" in request:
        outcome = {"error": entry["error"]} if "error" in entry else {"result": entry.get("result", {})}
        send({"id": request["id"], **outcome})


def main() -> None:
    with open(sys.argv[1]) as file:
        script = json.load(file)
    if "--login" in sys.argv:
        print("who are you?", os.environ.get("LOGIN_STYLE"))
        if input() == "me":
            open(f"{sys.argv[1]}.login", "w").close()
        sys.exit(script.get("login", 0))
    for line in sys.stdin:
        message = json.loads(line)
        with open(f"{sys.argv[1]}.log", "a") as log:
            log.write(line)
        if "method" in message:
            answer(message, script)


if __name__ == "__main__":
    main()
