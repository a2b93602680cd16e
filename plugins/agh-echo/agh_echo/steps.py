"""The behaviour of a good agent, one function per step: talk, think, call tools, ask the client.

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
    quoted = [f'"{text[:4000]}"' for text in turn.session.user_texts()]
    return f"SEEN {len(quoted)} user texts: {' | '.join(quoted)}"


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
    turn.keep({"thought": text, "id": message_id})


def tool(turn: Turn, text: str, end: str = "completed") -> Steps:
    name, rest = head(text)
    arguments, output = fields(rest)
    delay = float(arguments.pop("delay", 0))
    call = turn.open_tool(_describe_tool(turn, name, arguments, "other"))
    yield 0.0
    turn.change_tool(call, status="in_progress")
    yield delay
    if end:
        output = output or f"{name} {end}"
        turn.change_tool(call, status=end, content=updates.output(output), rawOutput={"output": output})


def tool_fail(turn: Turn, text: str) -> Steps:
    return tool(turn, text, "failed")


def tool_open(turn: Turn, text: str) -> Steps:
    return tool(turn, text, "")


def edit(turn: Turn, text: str) -> Steps:
    name, new_text = head(text)
    call = turn.open_tool(_describe_tool(turn, f"Edit {name}", {"path": name}, "edit"))
    yield 0.0
    path = _absolute(turn, name)
    diff = {"type": "diff", "path": path, "oldText": _read_file(path), "newText": unescape(new_text)}
    turn.change_tool(call, status="completed", content=[diff])


def plan(turn: Turn, text: str) -> None:
    plan = updates.plan([entry.strip() for entry in text.split(";")])
    turn.update(plan)
    turn.keep({"plan": plan})


def ask(turn: Turn, text: str, offered: dict[str, str] = OPTIONS) -> Steps:
    arguments, title = fields(text)
    call = turn.open_tool(_describe_tool(turn, title or "May I?", arguments, "edit"))
    options = [
        {"optionId": key, "name": kind.replace("_", " "), "kind": kind} for key, kind in offered.items()
    ]
    reply = yield turn.ask("session/request_permission", {"toolCall": call, "options": options})
    answer = error_in(reply)
    if not answer:
        outcome = reply["result"]["outcome"]
        option_id = outcome.get("optionId")
        answer = offered.get(option_id, f"unknown option {option_id}") if option_id else outcome["outcome"]
    turn.change_tool(call, status="completed" if answer.startswith("allow") else "failed")
    return f"permission: {answer}"


def ask_reject_only(turn: Turn, text: str) -> Steps:
    return ask(turn, text, {key: kind for key, kind in OPTIONS.items() if key.startswith("no")})


def change(turn: Turn, text: str) -> Steps:
    """Change a file as agents do: open a tool call, ask, write through the client, close the tool call."""
    name, content = head(text)
    call = turn.open_tool(_describe_tool(turn, f"Change {name}", {"path": name}, "edit"))
    options = [{"optionId": key, "name": kind, "kind": kind} for key, kind in OPTIONS.items()]
    reply = yield turn.ask("session/request_permission", {"toolCall": call, "options": options})
    is_allowed = OPTIONS.get(reply["result"]["outcome"].get("optionId"), "").startswith("allow")
    params = {"path": _absolute(turn, name), "content": unescape(content)}
    reply = (yield turn.ask("fs/write_text_file", params)) if is_allowed else reply
    turn.change_tool(call, status="completed" if is_allowed else "failed")
    return f"change {name}: {error_in(reply) or ('ok' if is_allowed else 'refused')}"


def read(turn: Turn, text: str) -> Steps:
    reply = yield turn.ask("fs/read_text_file", {"path": _absolute(turn, text)})
    return f"read {text}: {error_in(reply) or reply['result']['content']}"


def write(turn: Turn, text: str) -> Steps:
    name, content = head(text)
    params = {"path": _absolute(turn, name), "content": unescape(content)}
    reply = yield turn.ask("fs/write_text_file", params)
    return f"write {name}: {error_in(reply) or 'ok'}"


def run(turn: Turn, text: str) -> Steps:
    shell = {"command": "/bin/sh", "args": ["-c", text], "cwd": turn.session.cwd}
    created = yield turn.ask("terminal/create", shell)
    if error_in(created):
        return f"run {text}: {error_in(created)}"
    terminal = {"terminalId": created["result"]["terminalId"]}
    call = turn.open_tool(_describe_tool(turn, text, {"command": text}, "execute"))
    turn.change_tool(call, status="in_progress", content=[{"type": "terminal", **terminal}])
    try:
        exit_reply = yield turn.ask("terminal/wait_for_exit", terminal)
        output_reply = yield turn.ask("terminal/output", terminal)
    except Cancelled:
        turn.ask("terminal/release", terminal)  # this kills the command; nobody waits for the answer
        raise
    yield turn.ask("terminal/release", terminal)
    failure = error_in(exit_reply) or error_in(output_reply)
    status = exit_reply["result"] if not failure else {}
    turn.change_tool(call, status="completed" if status.get("exitCode") == 0 else "failed")
    ending = f"signal {status['signal']}" if status.get("signal") else f"exit {status.get('exitCode')}"
    return f"run {text}: {failure or ending + ': ' + output_reply['result']['output']}"


def sleep(_turn: Turn, text: str) -> Steps:
    yield float(text)


def usage(turn: Turn, text: str) -> None:
    input_tokens, output_tokens, cost = [*text.split(), "0"][:3]
    turn.tokens, turn.cost = (int(input_tokens), int(output_tokens)), float(cost)
    tokens, spent = turn.session.spent()
    turn.update(updates.usage(tokens + sum(turn.tokens), spent + turn.cost))


def title(turn: Turn, text: str) -> None:
    turn.session.remember({"title": text})
    turn.update({"sessionUpdate": "session_info_update", "title": text, "updatedAt": utc(time.time())})


def commands(turn: Turn, _text: str) -> None:
    available = [{"name": name, "description": f"Run the step /{name}"} for name in turn.steps]
    turn.update({"sessionUpdate": "available_commands_update", "availableCommands": available})


def mode(turn: Turn, text: str) -> None:
    turn.session.mode = text
    turn.update({"sessionUpdate": "current_mode_update", "currentModeId": text})


def settings(turn: Turn, _text: str) -> str:
    servers = ",".join(server["name"] for server in turn.session.mcp_servers)
    brief = " brief" if turn.session.brief else ""
    return f"mode={turn.session.mode} model={turn.session.model} mcp={servers}{brief}"


def given(turn: Turn, _text: str) -> str:
    return f"given: {json.dumps(turn.session.start_params)}"


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


def _describe_tool(turn: Turn, title: str, arguments: dict[str, str], kind: str) -> Frame:
    """Build a tool call from its key=value fields, of which kind, path and id set fields of the call."""
    call: Frame = {"title": title, "kind": arguments.pop("kind", kind)}
    if "id" in arguments:
        call["toolCallId"] = arguments.pop("id")
    if "path" in arguments:
        arguments["path"] = _absolute(turn, arguments["path"])
        call["locations"] = [{"path": arguments["path"]}]
    return call | {"rawInput": arguments}


def _absolute(turn: Turn, path: str) -> str:
    return os.path.join(turn.session.cwd, path)


def _read_file(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None


def error_in(reply: Frame) -> str:
    """Return the client's error as a text; empty if there is none."""
    error = reply.get("error")
    return f"error {error['code']} {error['message']}" if error else ""


STEPS = {
    step.__name__.replace("_", "-"): step
    for step in (
        echo, say, recall, stream, think, tool, tool_fail, tool_open, edit, plan, ask, ask_reject_only,
        change, read, write, run, sleep, usage, title, commands, mode, settings, given, cwd, env,
        pid, repeat,
    )
}  # fmt: skip
