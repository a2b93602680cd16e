"""The rows of a session as they look on a terminal, live and past.

A painter is given rows in order and passes on what can be printed for good. Where a blank line goes depends
on what is printed and never on when it came, so a turn looks the same while it runs and a year later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from agh.cli.look.content import name_blocks
from agh.cli.look.event_line import summary
from agh.cli.look.paint import Marked
from agh.cli.look.plan import paint_plan
from agh.cli.look.prose import Prose, split_blocks
from agh.cli.look.tool_call import paint_result
from agh.cli.look.turn_view import UNSPOKEN, HeldRequests, answer_command
from agh.console.terminal import clean, one_line
from agh.core.acp.frames import only_dicts
from agh.core.events import Row

REQUEST_LENGTH, NOTE_LENGTH = 4000, 400
_TIGHT = {"tool", "note"}  # stand together without blank lines between them


class Painter:
    """Paints rows. `text` and `thought` are what has come of a block that is not complete.

    `write` gets what is final; `full` hides nothing of what tools return. Paths of changes begin below the
    `workspace`.
    """

    def __init__(
        self,
        session_id: str,
        write: Callable[[RenderableType], None],
        *,
        full: bool = False,
        workspace: str | None = None,
    ) -> None:
        self.text = ""
        self.thought = ""
        self.running: dict[str, str] = {}  # the titles of tool calls that have not ended
        self._session_id, self._write, self._full, self._workspace = session_id, write, full, workspace
        self._last_kind: str | None = None
        self._speaker: str | None = None
        self._requests = HeldRequests()

    def hold(self, row: Row) -> None:
        """Take a request that needs no answer: what is painted is its decision, which follows."""
        self._requests.add(row)

    def show(self, row: Row, *, asks_next: bool = False) -> None:
        """Paint a row; of a message, only the blocks that are complete.

        A request gets the command that answers it, unless the terminal asks about it next.
        """
        content = row.parsed()
        if row.type in ("agent_message", "thought"):
            self._name_speaker(content.get("agent_id"))
        if row.type == "agent_message":
            self._end_thought()
            self.text += clean(str(content.get("text") or ""))
            self._name_content(content)
        elif row.type == "thought":
            self._end_text()
            self.thought += clean(str(content.get("text") or ""))
        elif row.type in ("tool_call", "tool_result"):
            self.settle()
            self._show_tool(row.type, content)
        elif row.type == "plan":
            self.settle()
            self._print("plan", paint_plan(content.get("raw")))
        elif row.type in ("permission", "question"):
            self._show_request(row.type, content, asks_next)
        elif row.type not in UNSPOKEN:
            self.note(summary(row.type, content))

    def quote(self, text: str, names: Iterable[str] = ()) -> None:
        """Paint a prompt, which begins with the mark of a prompt line, and the names of what came with it."""
        self.settle()
        mark, _, words = text.partition(" ")
        lines = [line.removeprefix("  ") for line in words.split("\n")]
        prompt = Marked(mark, Text("\n".join(lines), "title"), "prompt")
        self._print("prompt", [prompt, *(Marked(" ", Text(name, "note")) for name in names)])

    def prompt(self, row: Row) -> None:
        """Paint the prompt of a turn."""
        self._speaker = None
        content = row.parsed()
        words = clean(f"> {content.get('text') or ''}".replace("\n", "\n  "))
        self.quote(words, name_blocks(only_dicts(content.get("attachments"))))

    def note(self, words: str, mark: str = "!", role: str = "warning", length: int = NOTE_LENGTH) -> None:
        """Paint a remark on the session."""
        self.settle()
        self._print("note", [Marked(mark, Text(one_line(words, length), role), role)])

    def write_finished(self) -> None:
        """Print the blocks of the message that later text cannot change."""
        blocks, self.text = split_blocks(self.text)
        for block in blocks:
            self._print("prose", [Prose(block)])

    def settle(self) -> None:
        """Print everything so far for good."""
        self._end_thought()
        self._end_text()

    def _end_text(self) -> None:
        self.text += "\n"  # completes the last line
        self.write_finished()
        if self.text.strip():
            self._print("prose", [Prose(self.text)])
        self.text = ""

    def _end_thought(self) -> None:
        if self.thought.strip():
            self._print("thought", [Text(self.thought.strip(), "thought")])
        self.thought = ""

    def _show_tool(self, type: str, content: dict[str, Any]) -> None:
        call = str(content.get("tool_call_id"))
        title = one_line(str(content.get("title") or content.get("tool_name") or ""), NOTE_LENGTH)
        title = title or self.running.get(call) or call
        if type == "tool_call":
            self.running[call] = title
            return
        self.running.pop(call, None)
        self._print("tool", paint_result(title, content, full=self._full, workspace=self._workspace))

    def _show_request(self, type: str, content: dict[str, Any], asks_next: bool) -> None:
        if content.get("decision"):
            if decision := self._requests.describe_decision(type, content):
                self.note(f"{type} {decision}", "·", "muted")
            return
        words = summary(type, content).removeprefix("asked: ")
        lead = "the agent asks:" if type == "question" else "the agent wants to"
        self.note(f"{lead} {words}", "?", length=REQUEST_LENGTH)
        details = (
            [f"the agent calls it: {one_line(str(content['title']), 200)}"] if content.get("title") else []
        )
        if not asks_next:
            details.append(answer_command(self._session_id, type, content))
        self._print("note", [Marked(" ", Text(line, "muted")) for line in details])

    def _name_speaker(self, agent_id: str | None) -> None:
        """Say who speaks now, in a session with several agents."""
        if agent_id and agent_id != self._speaker:
            self.settle()
            self._print("speaker", [Text(one_line(f"{agent_id}:", NOTE_LENGTH), "prompt")])
            self._speaker = agent_id

    def _name_content(self, content: dict[str, Any]) -> None:
        """Name the image or the file that came instead of text."""
        raw = content.get("raw")
        if content.get("title") and isinstance(raw, dict) and (names := name_blocks([raw.get("content")])):
            self.settle()
            self._print("note", [Marked(" ", Text(name, "note")) for name in names])

    def _print(self, kind: str, parts: Iterable[RenderableType]) -> None:
        """Print parts that belong together, after a blank line unless they belong to what is above."""
        parts = list(parts)
        if (
            parts
            and self._last_kind
            and not {kind, self._last_kind} <= _TIGHT
            and self._last_kind != "speaker"
        ):
            self._write("")
        for part in parts:
            self._write(Group(part))  # a text alone would lose how it wants to be wrapped
            self._last_kind = kind
