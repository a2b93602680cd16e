"""One turn: the steps of a prompt, run in order, up to the prompt's result.

Promises: the user's text is stored before the first step runs, and the agent's output before the result is
sent, even if the turn was cancelled or failed.
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
    """A turn while it runs, and what steps can do in it."""

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
        """Run the steps of a prompt and return the result of session/prompt."""
        self.session.remember({"user": prompt, "id": new_id()})
        self.tokens = (len(prompt) // 4 + 1, 0)
        reason = "end_turn"
        try:
            requested = script.parse(prompt)
            for name, _ in requested:
                if name not in self.steps:
                    raise Failure(
                        -32602, f"Invalid params: no step /{name}; there is {', '.join(self.steps)}"
                    )
            for name, text in requested:
                yield from self.perform(name, text)
        except Cancelled:
            reason = "cancelled"
        except Stop as stop:
            reason = str(stop)
        finally:
            self._remember()
        for task in self.afterwards:
            self.loop.start(task)
        return {"stopReason": reason} | self._usage()

    def perform(self, name: str, text: str) -> Steps:
        """Run one step. It returns what to say, if anything, or a generator of waits that returns it."""
        try:
            answer = self.steps[name](self, text)
            if isinstance(answer, GeneratorType):
                answer = yield from answer
        except (LookupError, ValueError) as error:
            raise Failure(-32602, f"Invalid params: cannot run /{name} {text}: {error}") from error
        if isinstance(answer, str):
            yield from self._say(answer)

    def update(self, update: Frame) -> None:
        """Send a session/update notification."""
        self.loop.wire.notify("session/update", {"sessionId": self.session.id, "update": update})

    def ask(self, method: str, params: Frame) -> str:
        """Send a request to the client and return its id."""
        return self.loop.ask(method, {"sessionId": self.session.id, **params})

    def chunk(self, text: str) -> None:
        """Send a piece of the agent's message. After a tool call it starts another message."""
        if not self._pieces:
            self._records.append({"agent": "", "id": new_id()})
        self._pieces.append(text)
        self.update(updates.chunk("agent_message", text, self._records[-1]["id"]))

    def open_tool(self, tool: Frame) -> Frame:
        """Announce a tool call and return it with its id."""
        tool = {"toolCallId": f"call-{new_id()}", "status": "pending", **tool}
        self._close_message()
        self._records.append({"tool": tool})
        self.update({"sessionUpdate": "tool_call", **tool})
        return tool

    def keep(self, record: Frame) -> None:
        """Store something else that was shown, at its place in the history."""
        self._close_message()
        self._records.append(record)

    def change_tool(self, tool: Frame, **changes: object) -> None:
        """Report a change of a tool call."""
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
        """Store the turn's records and its usage."""
        self._close_message()
        input_tokens, output_tokens = self.tokens
        output_tokens = output_tokens or sum(len(record.get("agent", "")) for record in self._records) // 4
        self.tokens = (input_tokens, output_tokens)
        usage = {"tokens": input_tokens + output_tokens, "cost": self.cost}
        self.session.remember(*self._records, {"usage": usage})

    def _usage(self) -> Frame:
        """Send an update with the session's usage, and return the turn's own usage for its result."""
        if self.options.no_usage:
            return {}
        self.update(updates.usage(*self.session.spent()))
        input_tokens, output_tokens = self.tokens
        total = input_tokens + output_tokens
        return {"usage": {"inputTokens": input_tokens, "outputTokens": output_tokens, "totalTokens": total}}
