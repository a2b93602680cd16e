"""What a well-behaved agent does, one function per step: talk, think, call tools, ask the client.

A step takes the turn and the text after its name. It returns what to say, or a generator that returns it.
"""

import json
import os
import time

from agh_echo import updates
from agh_echo.kinds import Frame, Steps
from agh_echo.loop import Cancelled
from agh_echo.memory import new_id, utc
from agh_echo.script import chunks, fields, head, parse_line, unescape
from agh_echo.turn import Turn

OPTIONS = {
    "yes": "allow_once",
    "yes-always": "allow_always",
    "no": "reject_once",
    "no-always": "reject_always",
}


def echo(_turn: Turn, text: str) -> str:
    return f"echo: {text}"


def say(_turn: Turn, text: str) -> str:
    return text


def recall(turn: Turn, _text: str) -> str:
    texts = [f'"{seen[:4000]}"' for seen in turn.session.user_texts()]
    return f"SEEN {len(texts)} user texts: {' | '.join(texts)}"


def stream(turn: Turn, text: str) -> Steps:
    count, delay, size = [*text.split(), "0", "0"][:3]
    pause = float(delay) or turn.options.slow
    for number in range(1, int(count) + 1):
        turn.chunk(f"chunk {number} ".ljust(int(size), "."))
        if pause or number % 256 == 0:
            yield pause


def think(turn: Turn, text: str) -> Steps:
    message_id = new_id()
    for piece in chunks(text):
        turn.update(updates.chunk("agent_thought", piece, message_id))
        yield turn.options.slow


def tool(turn: Turn, text: str, end: str = "completed") -> Steps:
    name, rest = head(text)
    given, printed = fields(rest)
    delay = float(given.pop("delay", 0))
    call = turn.open_tool(_describe(turn, name, given, "other"))
    yield 0.0
    turn.change_tool(call, status="in_progress")
    yield delay
    if end:
        printed = printed or f"{name} {end}"
        turn.change_tool(call, status=end, content=updates.output(printed), rawOutput={"output": printed})


def tool_fail(turn: Turn, text: str) -> Steps:
    return tool(turn, text, "failed")


def tool_open(turn: Turn, text: str) -> Steps:
    return tool(turn, text, "")


def edit(turn: Turn, text: str) -> Steps:
    name, new = head(text)
    call = turn.open_tool(_describe(turn, f"Edit {name}", {"path": name}, "edit"))
    yield 0.0
    path = _absolute(turn, name)
    diff = {"type": "diff", "path": path, "oldText": _old_text(path), "newText": unescape(new)}
    turn.change_tool(call, status="completed", content=[diff])


def plan(turn: Turn, text: str) -> None:
    turn.update(updates.plan([entry.strip() for entry in text.split(";")]))


def ask(turn: Turn, text: str, offered: dict[str, str] = OPTIONS) -> Steps:
    given, title = fields(text)
    call = turn.open_tool(_describe(turn, title or "May I?", given, "edit"))
    options = [
        {"optionId": key, "name": kind.replace("_", " "), "kind": kind} for key, kind in offered.items()
    ]
    reply = yield turn.ask("session/request_permission", {"toolCall": call, "options": options})
    answer = _error(reply)
    if not answer:
        outcome = reply["result"]["outcome"]
        chosen = outcome.get("optionId")
        answer = offered.get(chosen, f"unknown option {chosen}") if chosen else outcome["outcome"]
    turn.change_tool(call, status="completed" if answer.startswith("allow") else "failed")
    return f"permission: {answer}"


def ask_reject_only(turn: Turn, text: str) -> Steps:
    return ask(turn, text, {key: kind for key, kind in OPTIONS.items() if key.startswith("no")})


def read(turn: Turn, text: str) -> Steps:
    reply = yield turn.ask("fs/read_text_file", {"path": _absolute(turn, text)})
    return f"read {text}: {_error(reply) or reply['result']['content']}"


def write(turn: Turn, text: str) -> Steps:
    name, content = head(text)
    params = {"path": _absolute(turn, name), "content": unescape(content)}
    reply = yield turn.ask("fs/write_text_file", params)
    return f"write {name}: {_error(reply) or 'ok'}"


def run(turn: Turn, text: str) -> Steps:
    shell = {"command": "/bin/sh", "args": ["-c", text], "cwd": turn.session.cwd}
    created = yield turn.ask("terminal/create", shell)
    if _error(created):
        return f"run {text}: {_error(created)}"
    terminal = {"terminalId": created["result"]["terminalId"]}
    call = turn.open_tool(_describe(turn, text, {"command": text}, "execute"))
    turn.change_tool(call, status="in_progress", content=[{"type": "terminal", **terminal}])
    try:
        ended = yield turn.ask("terminal/wait_for_exit", terminal)
        printed = yield turn.ask("terminal/output", terminal)
    except Cancelled:
        turn.ask("terminal/release", terminal)  # which kills the command; nobody waits for the answer
        raise
    yield turn.ask("terminal/release", terminal)
    failure = _error(ended) or _error(printed)
    status = ended["result"] if not failure else {}
    turn.change_tool(call, status="completed" if status.get("exitCode") == 0 else "failed")
    ending = f"signal {status['signal']}" if status.get("signal") else f"exit {status.get('exitCode')}"
    return f"run {text}: {failure or ending + ': ' + printed['result']['output']}"


def elicit(turn: Turn, text: str) -> Steps:
    form = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
    params = {"mode": "form", "message": text or "What is the answer?", "requestedSchema": form}
    reply = yield turn.ask("elicitation/create", params)
    result = reply.get("result") or {}
    return f"elicit: {_error(reply) or result['action']} {json.dumps(result.get('content') or {})}"


def sleep(_turn: Turn, text: str) -> Steps:
    yield float(text)


def usage(turn: Turn, text: str) -> None:
    taken, written, cost = [*text.split(), "0"][:3]
    turn.tokens, turn.cost = (int(taken), int(written)), float(cost)
    tokens, spent = turn.session.spent()
    turn.update(updates.usage(tokens + sum(turn.tokens), spent + turn.cost))


def title(turn: Turn, text: str) -> None:
    turn.session.remember({"title": text})
    turn.update({"sessionUpdate": "session_info_update", "title": text, "updatedAt": utc(time.time())})


def commands(turn: Turn, _text: str) -> None:
    known = [{"name": name, "description": f"Run the step /{name}"} for name in turn.steps]
    turn.update({"sessionUpdate": "available_commands_update", "availableCommands": known})


def mode(turn: Turn, text: str) -> None:
    turn.session.mode = text
    turn.update({"sessionUpdate": "current_mode_update", "currentModeId": text})


def settings(turn: Turn, _text: str) -> str:
    servers = ",".join(server["name"] for server in turn.session.mcp_servers)
    return f"mode={turn.session.mode} model={turn.session.model} mcp={servers}"


def given(turn: Turn, _text: str) -> str:
    return f"given: {json.dumps(turn.session.given)}"


def cwd(turn: Turn, _text: str) -> str:
    return f"cwd: {turn.session.cwd} (process: {os.getcwd()})"


def env(_turn: Turn, text: str) -> str:
    return f"{text}={os.environ[text]}" if text in os.environ else f"{text} is not set"


def pid(_turn: Turn, _text: str) -> str:
    return f"pid: {os.getpid()}"


def repeat(turn: Turn, text: str) -> Steps:
    count, rest = head(text)
    for _ in range(int(count)):
        yield from turn.perform(*parse_line(rest))
        yield 0.0


def _describe(turn: Turn, title: str, given: dict[str, str], kind: str) -> Frame:
    """A tool call from its key=value fields: kind, path and id have a place of their own."""
    call: Frame = {"title": title, "kind": given.pop("kind", kind)}
    if "id" in given:
        call["toolCallId"] = given.pop("id")
    if "path" in given:
        given["path"] = _absolute(turn, given["path"])
        call["locations"] = [{"path": given["path"]}]
    return call | {"rawInput": given}


def _absolute(turn: Turn, path: str) -> str:
    return os.path.join(turn.session.cwd, path)


def _old_text(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None


def _error(reply: Frame) -> str:
    error = reply.get("error")
    return f"error {error['code']} {error['message']}" if error else ""


STEPS = {
    step.__name__.replace("_", "-"): step
    for step in (
        echo, say, recall, stream, think, tool, tool_fail, tool_open, edit, plan, ask, ask_reject_only, read,
        write, run, elicit, sleep, usage, title, commands, mode, settings, given, cwd, env, pid, repeat,
    )
}  # fmt: skip
