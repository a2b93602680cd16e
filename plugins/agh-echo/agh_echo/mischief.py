"""The misbehaviour of broken agents, one function per step. Leave this module out of your own agent."""

import json
import os
import time

from agh_echo import updates
from agh_echo.kinds import Steps
from agh_echo.memory import new_id
from agh_echo.script import head
from agh_echo.turn import Stop, Turn
from agh_echo.wire import Failure

MIB = 1 << 20


def stop(_turn: Turn, text: str) -> None:
    raise Stop(text or "end_turn")


def empty(_turn: Turn, _text: str) -> None:
    raise Stop("end_turn")


def refuse(_turn: Turn, _text: str) -> None:
    raise Stop("refusal")


def error(_turn: Turn, text: str) -> None:
    word, rest = head(text or "-32603")
    if not word.lstrip("-").isdigit():
        word, rest = "-32603", text
    raise Failure(int(word), rest or "Internal error: as asked by /error")


def flaky(turn: Turn, text: str) -> None:
    times, rest = head(text)
    turn.session.failures += 1
    if turn.session.failures <= int(times):
        raise Failure(-32603, rest or "Internal error: 529 overloaded")
    turn.session.failures = 0


def limit(turn: Turn, text: str) -> None:
    """Fail the first prompts with this step, also across restarts, as if a usage limit were reached."""
    times, rest = head(text)
    if sum("/limit" in prompt for prompt in turn.session.user_texts()) <= int(times):
        raise Failure(-32603, rest or "Internal error: You've hit your limit · resets 11:59pm (UTC)")


def late(turn: Turn, text: str) -> None:
    count, delay = [*text.split(), "0"][:2]
    turn.afterwards.append(_send_late_chunks(turn, int(count), float(delay)))


def _send_late_chunks(turn: Turn, count: int, delay: float) -> Steps:
    message_id = new_id()
    for number in range(1, count + 1):
        yield delay
        turn.update(updates.chunk("agent_message", f"late {number} ", message_id))


def unknown(turn: Turn, text: str) -> None:
    turn.update({"sessionUpdate": text, "note": "an update of a kind that nobody knows"})


def ext(turn: Turn, text: str) -> None:
    turn.loop.wire.notify(text, {"sessionId": turn.session.id})


def request(turn: Turn, text: str) -> Steps:
    """Send a request of a kind that nobody knows, as in `/request _vendor/ask {"a": 1}`."""
    method, _, params = text.partition(" ")
    reply = yield turn.ask(method, json.loads(params or "{}"))
    return f"answer: {json.dumps(reply.get('result', reply.get('error')), sort_keys=True)}"


def exit_(turn: Turn, text: str) -> None:
    turn.loop.wire.flush()
    raise SystemExit(int(text or 1))


def crash(turn: Turn, _text: str) -> None:
    turn.loop.wire.flush()
    os.kill(os.getpid(), 9)


def hang(turn: Turn, _text: str) -> None:
    turn.loop.wire.flush()
    while True:
        time.sleep(3600)


def ignore_cancel(turn: Turn, _text: str) -> None:
    turn.task.ignores_cancel = True


def close_stdout(turn: Turn, _text: str) -> None:
    turn.loop.wire.flush()
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, turn.loop.wire.sink)
    os.close(null)


def stderr(_turn: Turn, text: str) -> None:
    os.write(2, text.encode() + b"\n")


def stderr_flood(_turn: Turn, text: str) -> Steps:
    block = (b"noise on stderr".ljust(127, b".") + b"\n") * 512
    for _ in range(int(float(text) * MIB) // len(block)):
        os.write(2, block)
        yield 0.0


def raw(turn: Turn, text: str) -> None:
    turn.loop.wire.write(text.encode() + b"\n")


def bytes_(turn: Turn, text: str) -> None:
    turn.loop.wire.write(bytes.fromhex(text))


def no_newline(turn: Turn, text: str) -> Steps:
    for _ in range(int(text)):
        turn.loop.wire.write(b"x" * MIB)
        yield 0.0


def long_line(turn: Turn, text: str) -> None:
    turn.update(updates.chunk("agent_message", "x" * int(float(text) * MIB), new_id()))


def spawn_setsid(_turn: Turn, text: str) -> str:
    from subprocess import DEVNULL, Popen  # here, not at the top: it doubles the start-up time

    seconds, option = head(text)
    out = None if option == "keep-stdout" else DEVNULL
    child = Popen(["sleep", seconds], stdin=DEVNULL, stdout=out, stderr=out, start_new_session=True)
    return f"spawned: {child.pid}"


STEPS = {
    step.__name__.replace("_", "-").strip("-"): step
    for step in (
        stop, empty, refuse, error, flaky, limit, late, unknown, ext, request, exit_, crash, hang,
        ignore_cancel, close_stdout, stderr, stderr_flood, raw, bytes_, no_newline, long_line, spawn_setsid,
    )
}  # fmt: skip
