"""One turn: the steps of a prompt, run in order, up to the prompt's result.

Promises: the user's text is stored before the first step runs; what the agent said is stored before the
turn is answered, also when it was cancelled or has failed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import GeneratorType

from agh_echo import script, updates
from agh_echo.kinds import Frame, Steps
from agh_echo.loop import Cancelled, Loop, Task
from agh_echo.memory import new_id
from agh_echo.options import Options
from agh_echo.session import Session
from agh_echo.wire import Failure

KnownSteps = Mapping[str, "Callable[[Turn, str], Steps | str | None]"]


class Stop(Exception):
    """Ends the turn at once, with this stop reason."""


class Turn:
    def __init__(self, loop: Loop, task: Task, session: Session, options: Options, steps: KnownSteps) -> None:
        self.loop = loop
        self.task = task
        self.session = session
        self.options = options
        self.steps = steps
        self.tokens = (0, 0)
        self.cost = 0.0
        self.afterwards: list[Steps] = []
        self._records: list[Frame] = []
        self._pieces: list[str] = []

    def run(self, prompt: str) -> Steps:
        """Return the result of session/prompt."""
        self.session.remember({"user": prompt, "id": new_id()})
        self.tokens = (len(prompt) // 4 + 1, 0)
        reason = "end_turn"
        try:
            asked = script.parse(prompt)
            for name, _ in asked:
                if name not in self.steps:
                    raise Failure(
                        -32602, f"Invalid params: no step /{name}; there is {', '.join(self.steps)}"
                    )
            for name, text in asked:
                yield from self.perform(name, text)
        except Cancelled:
            reason = "cancelled"
        except Stop as stop:
            reason = str(stop)
        finally:
            self._remember()
        for late in self.afterwards:
            self.loop.start(late)
        return {"stopReason": reason} | self._usage()

    def perform(self, name: str, text: str) -> Steps:
        """A step returns what to say, if anything, or a generator of waits that returns it."""
        try:
            said = self.steps[name](self, text)
            if isinstance(said, GeneratorType):
                said = yield from said
        except (LookupError, ValueError) as error:
            raise Failure(-32602, f"Invalid params: cannot run /{name} {text}: {error}") from error
        if isinstance(said, str):
            yield from self._say(said)

    def update(self, update: Frame) -> None:
        self.loop.wire.notify("session/update", {"sessionId": self.session.id, "update": update})

    def ask(self, method: str, params: Frame) -> str:
        return self.loop.ask(method, {"sessionId": self.session.id, **params})

    def chunk(self, text: str) -> None:
        """One piece of the agent's message; a tool call in between starts another message."""
        if not self._pieces:
            self._records.append({"agent": "", "id": new_id()})
        self._pieces.append(text)
        self.update(updates.chunk("agent_message", text, self._records[-1]["id"]))

    def open_tool(self, tool: Frame) -> Frame:
        tool = {"toolCallId": f"call-{new_id()}", "status": "pending", **tool}
        self._close_message()
        self._records.append({"tool": tool})
        self.update({"sessionUpdate": "tool_call", **tool})
        return tool

    def change_tool(self, tool: Frame, **changes: object) -> None:
        tool |= changes
        self.update({"sessionUpdate": "tool_call_update", "toolCallId": tool["toolCallId"], **changes})

    def _say(self, text: str) -> Steps:
        for piece in script.chunks(f"\n{text}" if self._pieces else text):
            self.chunk(piece)
            yield self.options.slow

    def _close_message(self) -> None:
        if self._pieces:
            self._records[-1]["agent"] = "".join(self._pieces)
            self._pieces = []

    def _remember(self) -> None:
        self._close_message()
        read, written = self.tokens
        written = written or sum(len(record.get("agent", "")) for record in self._records) // 4
        self.tokens = (read, written)
        self.session.remember(*self._records, {"usage": {"tokens": read + written, "cost": self.cost}})

    def _usage(self) -> Frame:
        """The turn's own figures, for its result; the update sent before it tells the session's."""
        if self.options.no_usage:
            return {}
        self.update(updates.usage(*self.session.spent()))
        read, written = self.tokens
        return {"usage": {"inputTokens": read, "outputTokens": written, "totalTokens": read + written}}
