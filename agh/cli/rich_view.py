"""A turn on a capable terminal: Markdown as it streams, dim thinking, a line per tool, diffs and plans.

Finished blocks of Markdown are printed for good; only the block in progress is redrawn.
"""

from __future__ import annotations

from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markdown import Markdown
from rich.spinner import Spinner
from rich.text import Text

from agh.cli.event_line import summary
from agh.cli.turn_view import UNSPOKEN, HeldRequests, View, answer_command, diff_lines
from agh.console.terminal import clean, one_line
from agh.core.acp.plans import plan_lines
from agh.core.events import Row

_DIFF_LINES = 40
_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}


class RichView(View):
    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._console = Console(highlight=False)
        self._live = Live(console=self._console, transient=True, refresh_per_second=12)
        self._live.start()
        self._text = ""
        self._thought = ""
        self._tools: dict[str, str] = {}
        self._requests = HeldRequests()
        self._draw()

    def hold(self, row: Row) -> None:
        self._requests.add(row)

    def show(self, row: Row) -> None:
        content = row.parsed()
        if row.type == "agent_message":
            self._end_thought()
            self._text += clean(str(content.get("text") or ""))
        elif row.type == "thought":
            self._thought += clean(str(content.get("text") or ""))
        elif row.type in ("tool_call", "tool_result"):
            self._settle()
            self._tool(row.type, content)
        elif row.type == "plan":
            self._settle()
            for line in plan_lines(content.get("raw")):
                self._console.print(Text(one_line(line, 200), "cyan"))
        elif row.type in ("permission", "question"):
            if content.get("decision"):
                if decision := self._requests.describe_decision(row.type, content):
                    self._settle()
                    self._console.print(Text(f"  {row.type} {one_line(decision, 400)}", "dim"))
            else:
                self._settle()
                self._console.print(Text(f"? {one_line(summary(row.type, content), 4000)}", "yellow"))
                if content.get("title"):
                    title = one_line(str(content["title"]), 200)
                    self._console.print(Text(f"  the agent calls it: {title}", "dim"))
                self._console.print(Text(f"  {answer_command(self._session_id, row.type, content)}", "dim"))
        elif row.type not in UNSPOKEN:
            self._settle()
            self._console.print(Text(f"! {one_line(summary(row.type, content), 400)}", "yellow"))

    def flush(self) -> None:
        self._print_finished_blocks()
        self._draw()

    def pause(self) -> None:
        self.flush()
        self._live.update(Text(""))
        self._live.stop()

    def resume(self) -> None:
        self._live = Live(console=self._console, transient=True, refresh_per_second=12)
        self._live.start()
        self._draw()

    def close(self) -> None:
        self._settle()
        self._live.update(Text(""))
        self._live.stop()

    def _draw(self) -> None:
        parts: list[RenderableType] = []
        if self._thought:
            parts.append(Text(self._thought[-400:], "dim italic"))
        if self._text:
            parts.append(_markdown(self._text))
        running = [title for title in self._tools.values() if title]
        parts.append(Spinner("dots", Text(running[-1] if running else "", "dim")))
        self._live.update(Group(*parts))

    def _print_finished_blocks(self) -> None:
        """Print up to the last blank line outside a code fence: that much is final."""
        end = position = 0
        fenced = False
        for line in self._text.splitlines(keepends=True):
            position += len(line)
            if line.lstrip().startswith(("```", "~~~")):
                fenced = not fenced
            if not fenced and not line.strip() and line.endswith("\n"):
                end = position
        if end:
            self._console.print(_markdown(self._text[:end]))
            self._text = self._text[end:]

    def _settle(self) -> None:
        """Print the text so far for good, whatever comes next."""
        self._end_thought()
        if self._text.strip():
            self._console.print(_markdown(self._text))
        self._text = ""

    def _end_thought(self) -> None:
        if self._thought.strip():
            self._console.print(Text(self._thought.strip(), "dim italic"))
        self._thought = ""

    def _tool(self, type: str, content: dict[str, Any]) -> None:
        call = str(content.get("tool_call_id"))
        title = one_line(str(content.get("title") or content.get("tool_name") or ""), 120)
        title = title or self._tools.get(call) or call
        if type == "tool_call":
            self._tools[call] = title
            return
        self._tools.pop(call, None)
        failed = bool(content.get("tool_error"))
        result = content.get("tool_result") or {}
        self._console.print(Text(f"{'✗' if failed else '✓'} {title}", "red" if failed else "green"))
        if failed and result.get("error"):
            self._console.print(Text(f"  {one_line(str(result['error']), 300)}", "red"))
        for patch in result.get("structured_patch") or []:
            if isinstance(patch, dict):
                self._diff(patch)

    def _diff(self, patch: dict[str, Any]) -> None:
        lines = diff_lines(patch.get("oldText"), patch.get("newText"), str(patch.get("path")))
        for line in lines[:_DIFF_LINES]:
            self._console.print(Text(f"  {clean(line)}", _DIFF_STYLES.get(line[:1], "dim")))
        if len(lines) > _DIFF_LINES:
            self._console.print(Text(f"  … {len(lines) - _DIFF_LINES} more lines", "dim"))


def _markdown(text: str) -> Markdown:
    return Markdown(text, hyperlinks=False)
