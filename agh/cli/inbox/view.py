"""An entry of the inbox as lines for a terminal."""

from __future__ import annotations

from datetime import UTC, datetime

from agh.cli.approval import LONGEST, cut_line
from agh.console import terminal
from agh.console.theme import Role, diff_role
from agh.console.when import age
from agh.sessions.requests.inbox import Entry

INDENT = "    "
KIND_WORDS = {
    "permission": "a permission request",
    "question": "a question",
    "gate": "a gate",
    "login": "a missing login",
    "limited": "a usage limit",
    "failure": "a failure",
}
LIST_LINES = 24  # of an entry in the list; `agh inbox show` has all of it


def format_entry(entry: Entry, lines: int | None = LIST_LINES) -> str:
    """Return an entry: its number, kind and session, what it is about, the details, and how to answer."""
    label = entry["name"] or entry["session_id"]
    waiting = age(entry["since"], datetime.now(UTC))
    head = f"{reference(entry)}  {entry['kind']}  {terminal.one_line(label, 200)}  {waiting}"
    details = [entry["about"], *entry["details"]]
    if lines is not None and len(details) > lines:
        more = f"… {len(details) - lines} more lines: agh inbox show {reference(entry)}"
        details = [*details[:lines], more]
    answers = " | ".join(command.replace(entry["key"], reference(entry)) for command in entry["next"])
    longest = None if lines is None else LONGEST
    body = [_format_line(line, entry["kind"] == "permission", longest) for line in details]
    return "\n".join([terminal.styled(head, "title"), *body, _indent(answers, "muted")])


def _format_line(line: str, is_change: bool, longest: int | None) -> str:
    """Return a line of the details; of a change, in its colour and with its own indent."""
    return _indent(cut_line(terminal.clean(line), longest), diff_role(line) if is_change else None)


def _indent(line: str, role: Role | None) -> str:
    """Return a line with an indent; on a terminal, so that it is not wrapped without one."""
    room = max(20, terminal.width() - len(INDENT))
    pieces = [line]
    if terminal.is_terminal() and terminal.display_width(line) > room:
        from textwrap import wrap

        pieces = wrap(
            line, room, replace_whitespace=False, drop_whitespace=False, break_on_hyphens=False
        ) or [line]
    return "\n".join(f"{INDENT}{terminal.styled(piece, role) if role else piece}" for piece in pieces)


def reference(entry: Entry) -> str:
    """Return what a user types to name the entry: its number, or its key if it could not be numbered."""
    return entry["key"] if entry["number"] is None else str(entry["number"])
