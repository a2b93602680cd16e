"""A turn as it happens, for people and for pipes. Views are given rows in order and never look elsewhere.

What a view was given is visible after the next `flush`: a burst of chunks costs one write.
"""

from __future__ import annotations

from typing import Any

from agh.cli.look.event_line import summary
from agh.console import terminal
from agh.console.output import remark, write_json, write_lines, write_text
from agh.core.events import MARKER_TYPES, Row, envelopes
from agh.core.transcript import Assembler

# Not shown on a terminal: the caller reports the end, and the rest is in the log.
UNSPOKEN = ("user_message", "usage", "system", "thought", "runtime_progress", "done", "error")
_MEMORY = {  # what the agent knows after a resume of this kind
    **dict.fromkeys(
        ("native_fork", "native_resume", "native_load", "cli_resume"), "the agent remembers the session"
    ),
    "inject_history": "the agent gets the history with the next prompt",
}


class View:
    """Shows the rows of a turn in order until it is closed; paused while a question is on the terminal."""

    waits = False  # whether another turn of the prompt follows if this one met a usage limit

    def show(self, row: Row) -> None:
        raise NotImplementedError

    def hold(self, row: Row) -> None:
        """Take a request that needs no answer any more: what is shown is its decision, which follows."""
        self.show(row)

    def introduce(self, row: Row) -> None:
        """Show a request that the terminal asks about next, without the command that answers it."""
        self.show(row)

    def quote(self, line: str) -> None:
        """Show a line of the user's side: a prompt that was not typed here."""

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.flush()

    def pause(self) -> None:
        self.flush()

    def resume(self) -> None:
        pass


def view_for(output: str, session: dict[str, Any]) -> View:
    if output == "jsonl":
        return Lines(session)
    if output == "json":
        return Document(session)
    if output == "text":
        return Words()
    if terminal.is_fancy():
        from agh.cli.look.rich_view import RichView

        return RichView(session["id"], session.get("workspace_path"))
    return Plain(session["id"])


class Lines(View):
    """Prints the stored envelopes as they land."""

    def __init__(self, session: dict[str, Any]) -> None:
        self._envelope = session["id"], session.get("workspace_id"), session.get("workspace_path")
        self._rows: list[Row] = []

    def show(self, row: Row) -> None:
        self._rows.append(row)

    def flush(self) -> None:
        rows, self._rows = self._rows, []
        write_lines(envelopes(rows, *self._envelope))


class Document(View):
    """Prints one object at the end: the messages, how the turn ended, what it used."""

    def __init__(self, session: dict[str, Any]) -> None:
        self._session = session
        self._transcript = Assembler()
        self._last: Row | None = None

    def show(self, row: Row) -> None:
        self._transcript.feed(row)
        self._last = row if row.turn_id else self._last

    def close(self) -> None:
        ended = self._last.parsed() if self._last else {}
        if self.waits and ended.get("stop_reason") == "limited":
            return
        answers = [
            message["content"] for message in self._transcript.messages if message["role"] == "assistant"
        ]
        write_json(
            {
                "turn": {
                    "session_id": self._session["id"],
                    "turn_id": self._last.turn_id if self._last else None,
                    "stop_reason": ended.get("stop_reason"),
                    "error": ended.get("error"),
                    "usage": ended.get("usage"),
                    "text": "\n".join(filter(None, answers)),
                    "messages": self._transcript.messages,
                }
            }
        )


class Words(View):
    """Prints only the assistant's text."""

    def __init__(self) -> None:
        self._tail = "\n"
        self._unwritten: list[str] = []

    def show(self, row: Row) -> None:
        if row.type == "agent_message":
            self._say(str(row.parsed().get("text") or ""))
        elif row.type in ("tool_call", "tool_result"):
            self._end_line()

    def flush(self) -> None:
        text, self._unwritten = "".join(self._unwritten), []
        if text:
            write_text(terminal.clean(text) if terminal.is_terminal() else text)

    def close(self) -> None:
        self._end_line()
        self.flush()

    def _end_line(self) -> None:
        if self._tail != "\n":
            self._say("\n")

    def _say(self, text: str) -> None:
        if text:
            self._unwritten.append(text)
            self._tail = text[-1]


class Plain(Words):
    """Prints the text, and a line for everything else worth knowing, on a terminal without Rich."""

    def __init__(self, session_id: str) -> None:
        super().__init__()
        self._session_id = session_id
        self._tools: dict[str, str] = {}
        self._requests = HeldRequests()
        self._asks_next = False

    def hold(self, row: Row) -> None:
        self._requests.add(row)

    def quote(self, line: str) -> None:
        self._end_line()
        self._say(f"{line}\n")

    def show(self, row: Row) -> None:
        content = row.parsed()
        if content.get("decision"):
            if line := self._requests.describe_decision(row.type, content):
                self._end_line()
                self._say(terminal.one_line(f"[{row.type}] {line}", 400) + "\n")
            return
        if row.type in ("agent_message", *UNSPOKEN):
            super().show(row)
            return
        if row.type in ("tool_call", "tool_result"):
            call = str(content.get("tool_call_id"))
            if row.type == "tool_call" and call in self._tools:
                return
            name = content.get("tool_name") or content.get("title")
            content["tool_name"] = self._tools[call] = str(name or self._tools.get(call) or call)
        self._end_line()
        label = "note" if row.type in MARKER_TYPES else row.type
        line = f"[{label}] {summary(row.type, content)}"
        self._say(terminal.one_line(line, 400) + "\n")
        if row.type in ("permission", "question"):
            if content.get("title"):
                self._say(terminal.one_line(f"  the agent calls it: {content['title']}", 400) + "\n")
            if not self._asks_next:
                self._say(f"  {answer_command(self._session_id, row.type, content)}\n")

    def introduce(self, row: Row) -> None:
        self._asks_next = True
        self.show(row)
        self._asks_next = False


class HeldRequests:
    """Requests of the agent that need no answer, until their decisions come."""

    def __init__(self) -> None:
        self._contents: dict[str, dict[str, Any]] = {}

    def add(self, row: Row) -> None:
        content = row.parsed()
        self._contents[str(content.get("request_id"))] = content

    def describe_decision(self, type: str, content: dict[str, Any]) -> str | None:
        """Return a line for the decision on a held request; None if the request was shown before."""
        request = self._contents.pop(str(content.get("request_id")), None)
        return None if request is None else summary(type, request | content)


def answer_command(session_id: str, type: str, content: dict[str, Any]) -> str:
    """Return the command that answers a permission request or a question from any terminal."""
    if type == "question":
        return terminal.clean(f"agh session answer {session_id} {content.get('request_id')}")
    return terminal.clean(f"agh session approve {session_id} {content.get('request_id')} (or deny)")


def diff_lines(old: str | None, new: str | None, path: str) -> list[str]:
    from agh.core.diff import unified

    return unified(old or "", new or "", path)


def tell_restored(hello: dict[str, Any]) -> None:
    """Say how the session was resumed, and warn if the agent lost its context."""
    for text in hello.get("remarks") or []:
        remark(text)
    strategy = str(hello.get("strategy"))
    text = f"resumed by {strategy}" + (f": {_MEMORY[strategy]}" if strategy in _MEMORY else "")
    if hello.get("meant"):
        text = f"{hello['meant']}; {_MEMORY.get(strategy, 'the agent starts without the history')}"
    elif hello.get("context_lost"):
        text = f"warning: the agent lost its memory of this session ({hello.get('reason')}); {text}"
    remark(text)
