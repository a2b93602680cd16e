"""What an editor does for the agent while it has the session open: it lends files and terminals.

What agh itself does not understand passes between the two unchanged, and is recorded.

Promises: the workspace's boundary and the session's permissions come first, as for agh's own files and
terminals. An editor that is gone, is unable or does not answer within LIMIT holds up nothing: agh does the
work itself, and asks a silent editor no more until it answers or prompts. Only a command that an editor may
have started is not started again: the agent gets an error. While somebody else has the lease, no editor is
asked.

The lender's connection gets the work, one message each, and sends the results back. See verbs.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import orjson

from agh.core.acp.frames import INTERNAL_ERROR, Id, Request, Response
from agh.core.acp.long_text import LongText
from agh.core.acp.tool_result import newest
from agh.core.events import timestamp
from agh.core.named_tuple import NamedTuple
from agh.core.status import is_leased
from agh.errors import AghError, Usage
from agh.keeper.agent.answers import refuse_own_process
from agh.keeper.agent.terminals import MAX_RELEASED
from agh.keeper.loop import Timer
from agh.keeper.server import Answer
from agh.keeper.session import Live

LIMIT = 5.0  # seconds
PASS_LIMIT = 60.0  # seconds, for what nobody here knows
OFFERS = ("fs/read_text_file", "fs/write_text_file", "terminal", "others")
Then = Callable[[dict[str, Any] | None], None]
Answered = Callable[[dict[str, Any]], None]


TIMED_OUT = {"error": {"code": INTERNAL_ERROR, "message": "the editor did not answer"}}


class Work(NamedTuple):
    """What a lender was asked to do. `then` gets the result; None if there is none."""

    then: Then
    timer: Timer | None


class Lender:
    """An editor that lends what it offers. `send` sends it a message."""

    def __init__(self, live: Live, holder: str, offers: frozenset[str], send: Answer) -> None:
        self.id = os.urandom(8).hex()
        self.holder, self.offers = holder, offers
        self.is_gone = False
        self._live, self._send = live, send
        self._work: dict[int, Work] = {}
        self._passed: dict[int, Answered] = {}
        self._last_number = 0

    def ask(self, method: str, params: dict[str, Any], then: Then, limit: float | None = LIMIT) -> None:
        """Ask the editor to do something, for as long as the limit allows."""
        if self.is_gone:
            then(None)
            return
        self._last_number += 1
        number = self._last_number
        timer = None if limit is None else self._live.loop.later(limit, self.leave)
        self._work[number] = Work(then, timer)
        self._send({"number": number, "method": method, "params": params})

    def pass_on(self, method: str, params: Any, answered: Answered) -> None:
        """Pass on a request that agh does not know; `answered` gets a result or an error."""
        self._last_number += 1
        number = self._last_number
        self._passed[number] = answered
        self._live.loop.later(PASS_LIMIT, lambda: self.answer(number, TIMED_OUT))
        self._send({"number": number, "method": method, "params": params, "whole": True})

    def answer(self, number: Any, message: dict[str, Any]) -> None:
        """Take the answer to a request that was passed on."""
        answered = self._passed.pop(number, None) if isinstance(number, int) else None
        if answered is not None:
            answered({name: message[name] for name in ("result", "error") if name in message} or TIMED_OUT)

    def finish(self, number: Any, result: Any) -> None:
        """Take the result of what the editor was asked to do; None if it could not."""
        work = self._work.pop(number, None) if isinstance(number, int) else None
        if work is not None:
            if work.timer is not None:
                work.timer.cancel()
            work.then(result if isinstance(result, dict) else None)

    def leave(self) -> None:
        """Ask the editor no more. Whatever it has not done, it does not do."""
        self.is_gone = True
        self._live.agent.lending.lenders.pop(self.id, None)  # type: ignore[union-attr]
        self._send({"end": True})
        for number in list(self._passed):
            self.answer(number, TIMED_OUT)
        work, self._work = self._work, {}
        for each in work.values():
            if each.timer is not None:
                each.timer.cancel()
            each.then(None)


class LentTerminal:
    """A terminal of an editor, and what it last said that the command had printed."""

    def __init__(self, lender: Lender) -> None:
        self.lender = lender
        self.output = ""

    def note_output(self, result: dict[str, Any] | None) -> None:
        output = result.get("output") if result else None
        if isinstance(output, str):
            self.output = output


class Lending:
    """What editors lend to the agent of a session."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self.lenders: dict[str, Lender] = {}  # by id; the last that came is asked first
        self.terminals: dict[str, LentTerminal] = {}  # by id

    def read(self, agent_id: Id, params: dict[str, Any], own: Callable[[], None]) -> bool:
        """Let an editor read a file and reply to the agent; return False if there is no editor for it."""

        def reply(result: dict[str, Any] | None) -> None:
            if result is not None and isinstance(result.get("content"), str):
                self._live.agent.connected.reply(agent_id, {"content": result["content"]})
            else:
                own()

        return self._ask("fs/read_text_file", params, reply)

    def write(self, agent_id: Id, params: dict[str, Any], own: Callable[[], None]) -> bool:
        """Let an editor write a file and reply to the agent; return False if there is no editor for it."""
        if isinstance(params["content"], LongText):
            return False

        def reply(result: dict[str, Any] | None) -> None:
            if result is not None:
                self._live.agent.connected.reply(agent_id, {})
            else:
                own()

        return self._ask("fs/write_text_file", params, reply)

    def pass_on(self, frame: Request) -> bool:
        """Pass a request of the agent on to an editor; return False if there is none."""
        lender, agent, live = self._lender("others"), self._live.agent.connected, self._live
        if lender is None:
            return False

        def reply(answer: dict[str, Any]) -> None:
            with live.log.batch():
                record(live, f"answer to {frame.method}", answer)
                live.log.then(lambda: agent.answer_with(frame.id, answer))

        lender.pass_on(frame.method, frame.params, reply)
        return True

    def create_terminal(self, agent_id: Id, params: dict[str, Any], own: Callable[[], None]) -> bool:
        """Let an editor run a command and reply to the agent; return False if there is no editor for it."""
        lender = self._lender("terminal")
        if lender is None:
            return False

        def reply(result: dict[str, Any] | None) -> None:
            name = result.get("terminalId") if result else None
            if lender.is_gone:
                words = "the editor did not answer; whether the command was started is unknown"
                self._live.agent.connected.refuse(agent_id, INTERNAL_ERROR, words)
                return
            if not isinstance(name, str) or name in self.terminals or name in self._live.agent.terminals:
                own()
                return
            self.terminals[name] = LentTerminal(lender)
            self._live.agent.connected.reply(agent_id, {"terminalId": name})

        lender.ask("terminal/create", params, reply)
        return True

    def use_terminal(self, frame: Request, name: str) -> bool:
        """Do what the agent asks of an editor's terminal; return False if there is no such terminal."""
        terminal, agent = self.terminals.get(name), self._live.agent.connected
        if terminal is None:
            return False

        def reply(result: dict[str, Any] | None) -> None:
            terminal.note_output(result)
            if result is None:
                agent.refuse(frame.id, INTERNAL_ERROR, f"the editor with the terminal {name} is gone")
            else:
                agent.reply(frame.id, result)

        params, lender = {"terminalId": name}, terminal.lender
        if frame.method == "terminal/wait_for_exit":
            lender.ask(frame.method, params, reply, limit=None)
        elif frame.method == "terminal/release":
            self._release(name, terminal, lambda: lender.ask(frame.method, params, reply))
        else:
            lender.ask(frame.method, params, reply)
        return True

    def output_of(self, name: str) -> str | None:
        """Return what is known of the output of an editor's terminal; None if there is no such terminal."""
        terminal = self.terminals.get(name)
        return terminal.output if terminal else None

    def _release(self, name: str, terminal: LentTerminal, release: Callable[[], None]) -> None:
        """Release a terminal, but first note what it has printed: its tool call may not be finished yet."""

        def forget(result: dict[str, Any] | None) -> None:
            terminal.note_output(result)
            self.terminals.pop(name, None)
            released = self._live.agent.released
            released[name] = newest(terminal.output)
            if len(released) > MAX_RELEASED:
                del released[next(iter(released))]
            release()

        terminal.lender.ask("terminal/output", {"terminalId": name}, forget)

    def _ask(self, method: str, params: dict[str, Any], then: Then) -> bool:
        lender = self._lender(method)
        if lender is not None:
            lender.ask(method, params, then)
        return lender is not None

    def _lender(self, offer: str) -> Lender | None:
        """Return the editor to ask: the last that came, unless the session is somebody else's."""
        lease, now = self._live.meta.get("attach"), timestamp()
        for lender in reversed(self.lenders.values()):
            if offer in lender.offers and not is_leased(lease, now, lender.holder):
                return lender
        return None


def lend_verb(live: Live, request: dict[str, Any], answer: Answer) -> None:
    """Take an editor's offer, until its connection ends; its other answers are what it is asked to do."""
    refuse_own_process(live, request, "lend files or terminals")
    offers = frozenset(request["offers"]) & frozenset(OFFERS)
    if live.agent.lending is None:
        live.agent.lending = Lending(live)
    lender = Lender(live, str(request["holder"]), offers, answer)
    live.agent.lending.lenders[lender.id] = lender
    request["when_gone"](lender.leave)
    answer({"lender": lender.id})


def lent_verb(live: Live, request: dict[str, Any], answer: Answer) -> None:
    """Take what an editor has done. This has no answer: its connection gets the next work."""
    lender = live.agent.lending.lenders.get(str(request["lender"])) if live.agent.lending else None
    if lender is None:
        raise Usage("no editor with this id offers files or terminals")
    if "answer" in request:
        lender.answer(request.get("number"), dict(request["answer"]))
    else:
        lender.finish(request.get("number"), request.get("result"))


def pass_verb(live: Live, request: dict[str, Any], answer: Answer) -> None:
    """Pass a request or a notification of an editor on to the agent; answer with what the agent answers."""
    refuse_own_process(live, request, f"send {request['method']}")
    method, params, agent = str(request["method"]), dict(request["params"]), live.agent.connected
    params["sessionId"] = live.meta.get("acp_session_id")
    with live.log.batch():
        record(live, f"from the editor: {method}", {"method": method, "params": params})
    if not request.get("wants_answer"):
        agent.notify(method, params)
        answer({})
        return

    def take(response: Response | AghError) -> None:
        if isinstance(response, AghError):
            answer(response)
            return
        error, result = response.error, response.result
        with live.log.batch():
            live.log.record(
                "system", turn_id=live.turns.current_id, title=f"answer to {method}", raw=response.raw
            )
            live.log.then(lambda: answer({"error": error} if error is not None else {"result": result}))

    agent.request(method, params, take, PASS_LIMIT)


def record(live: Live, title: str, message: dict[str, Any]) -> None:
    """Inside a batch: record a message that agh does not understand."""
    live.log.record("system", turn_id=live.turns.current_id, title=title, raw=orjson.dumps(message))
