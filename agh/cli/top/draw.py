"""The screen of `agh top` as lines of styled text. Pure, but for the clock.

Promises: no line is wider than the screen, and text of an agent is cleaned before it gets here or here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime

from agh.cli.session.table import format_directory, needs_you, status_role
from agh.cli.top.state import Mode, State, label
from agh.console import terminal
from agh.console.theme import diff_role
from agh.console.when import age
from agh.core.display.brief import format_cost, format_model, last_line
from agh.sessions.requests.inbox import Entry
from agh.store.views import View

Line = list[tuple[str, str]]  # texts, each after its style: a role of the theme as a class of prompt_toolkit

DETAILS_FROM = 12  # lines of a screen that has room for more than the list
MOST_DETAILS = 12
HELP = (
    ("arrows, j, k", "select a session; g and G: the first, the last"),
    ("Enter", "attach to it; Ctrl-D comes back here"),
    ("a", "show its request and the diff, then allow it"),
    ("d", "deny it"),
    ("n", "start a session: agent, directory, first prompt"),
    ("s", "stop the selected session"),
    ("/", "show only sessions with these words"),
    ("Esc", "show all sessions again"),
    ("q, Ctrl-C", "quit; the sessions continue"),
)


def draw(state: State, width: int, height: int) -> list[Line]:
    """Return the lines above the last line of the screen."""
    if state.mode is Mode.HELP:
        return _help(width, height)
    if state.mode is Mode.ANSWER and state.answer:
        return _answer(state, width, height)
    details = min(MOST_DETAILS, height // 3) if height >= DETAILS_FROM else 0
    lines = [_title(state, width), *draw_table(state, width, height - 1 - details)]
    if details and (view := state.view):
        lines += _details(view, state.entries, width, details)
    return lines


def draw_hint(state: State, width: int) -> Line:
    """Return the last line of the screen: a question, the last message, or the keys."""
    if state.mode is Mode.STOP and state.view:
        question = f"stop {terminal.one_line(label(state.view), 40)}? y, n"
        return [("class:warning", terminal.cut(question, width))]
    if state.mode is Mode.ANSWER and state.answer:
        verb = "allow" if state.answer.allows else "deny"
        keys = [f"{key} {words}" for key, (_, words) in state.answer.choices.items()]
        text = "  ".join([f"{verb} this?", *keys, "n back", "arrows scroll"])
        return [("class:warning", terminal.cut(text, width))]
    if state.message:
        return [("class:title", terminal.cut(terminal.one_line(state.message, 400), width))]
    if state.mode is Mode.HELP:
        return [("class:muted", terminal.cut("any key: back to the list", width))]
    return [("class:muted", "" if state.mode is Mode.FORM else terminal.cut(_keys(state, width), width))]


def draw_table(state: State, width: int, height: int) -> list[Line]:
    """Return the header and the sessions around the selected one, in exactly `height` lines."""
    if not state.views:
        text = "no session has these words" if state.filter else "no sessions yet: press n to start one"
        return _fill([[("", terminal.cut(text, width))]], height)
    views = state.scroll(max(1, height - 1))
    table = state.lay_out(width)
    lines: list[Line] = [[("class:title", table.header)]]
    for view, row in zip(views, table.rows[state.first :], strict=False):
        row_style = "class:selected " if view["id"] == state.selected else ""
        line = [
            (row_style, row.before),
            (f"{row_style}class:{status_role(view['badge'])}", row.status),
            (row_style, row.behind),
        ]
        if row_style:
            line.append((row_style, " " * (width - terminal.display_width("".join(row)))))
        lines.append(line)
    return _fill(lines, height)


def _preview(entries: Sequence[Entry], height: int) -> list[Line]:
    """Return the first lines of an open request. Room is scarce, so paths in the workspace are short."""
    entry = entries[0]
    style = "class:warning" if entry["kind"] != "failure" else "class:error"
    about = terminal.one_line(shorten(entry, entry["about"]), 1000)
    lines: list[Line] = [[(style, f"{entry['kind']}: {about}")]]
    if len(entries) > 1:
        lines.append([("", f"and {len(entries) - 1} more")])
    details = [line for line in entry["details"][: height + 4] if not line.startswith(("--- ", "+++ "))]
    return lines + [[(diff_style(line), terminal.clean(shorten(entry, line)))] for line in details]


def shorten(entry: Entry, text: str) -> str:
    """Return a text of an entry with the paths in its workspace relative to that, but not the workspace."""
    workspace = re.escape(entry["workspace_path"] or "")
    return re.sub(rf"(?<![\w/.~-]){workspace}/(?=[\w.])", "", text) if workspace else text


def diff_style(line: str) -> str:
    """Return the style of a line of a diff, or of other details."""
    role = diff_role(line)
    return f"class:{role}" if role else ""


def _title(state: State, width: int) -> Line:
    count, waiting = len(state.views), sum(needs_you(view["badge"]) for view in state.views)
    parts = [f"{count} {'session' if count == 1 else 'sessions'}"]
    if waiting:
        parts.append(f"{waiting} {'needs' if waiting == 1 else 'need'} you")
    if state.filter:
        parts.append(f"with: {terminal.one_line(state.filter, 100)}")
    return [("class:title", terminal.cut(f"agh top  {', '.join(parts)}", width))]


def _details(view: View, entries: Sequence[Entry], width: int, height: int) -> list[Line]:
    """Return a rule with the session's name, its facts, and what it asks or said last."""
    name = terminal.cut(terminal.one_line(label(view), 200), width - 6)
    rule = f"── {name} ".ljust(width, "─") if name.isascii() else f"── {name} ──"
    facts = (
        str(view.get("agent_name") or ""),
        format_model(view),
        str((view.get("current") or {}).get("mode") or ""),
        format_cost(view),
        f"{view['badge']} {age(view.get('updated_at'), datetime.now(UTC))}",
        format_directory(str(view.get("workspace_path") or ""), os.path.expanduser("~")),
    )
    lines: list[Line] = [
        [("class:muted", rule)],
        [("class:title", "  ".join(terminal.one_line(fact, 200) for fact in facts if fact))],
    ]
    if entries:
        lines += _preview(entries, height)
    else:
        text = terminal.one_line(last_line(view), 4000)
        lines += [[("", line)] for line in _wrap(text, width, height)]
    if len(lines) > height:
        lines[height - 1 :] = [[("class:muted", "… press a to see all of it" if entries else "…")]]
    return _fill([_cut(line, width) for line in lines], height)


def _answer(state: State, width: int, height: int) -> list[Line]:
    """Return the request that is about to be answered: all of it can be scrolled into view."""
    assert state.answer is not None
    entry = state.answer.entry
    waiting = age(entry["since"], datetime.now(UTC))
    name = terminal.one_line(str(entry["name"] or entry["session_id"]), 200)
    lines: list[Line] = [[("", line)] for line in _wrap(terminal.clean(entry["about"]), width, None)]
    for text in entry["details"]:
        lines += [[(diff_style(text), part)] for part in _wrap(terminal.clean(text), width, None)]
    room = max(1, height - 1)
    last = max(0, len(lines) - room)
    state.answer.position = position = max(0, min(state.answer.position, last))
    title = f"{name} asks for permission  {waiting}"
    if last:
        title += f"  lines {position + 1} to {min(len(lines), position + room)} of {len(lines)}"
    return _fill([_cut([("class:title", title)], width), *lines[position : position + room]], height)


def _help(width: int, height: int) -> list[Line]:
    lines: list[Line] = [[("class:title", "agh top: all sessions, those that need you first")], []]
    lines += [[("class:title", f"  {keys:<14}"), ("", words)] for keys, words in HELP]
    return _fill([_cut(line, width) for line in lines], height)


def _keys(state: State, width: int) -> str:
    """Return as many of the keys as fit; the last ones always do."""
    hints = ["n new", "s stop", "/ filter"]
    if state.entries:
        is_permission = state.entries[0]["kind"] == "permission"
        hints = [*(("a allow", "d deny") if is_permission else ("a answer",)), *hints]
    if state.filter:
        hints.insert(0, "Esc all")
    hints = ["Enter attach", *hints, "? help", "q quit"]
    while len(hints) > 2 and len("  ".join(hints)) > width:
        del hints[-3]
    return "  ".join(hints)


def _wrap(text: str, width: int, lines: int | None) -> list[str]:
    """Break a cleaned text into lines of the screen's width, at most this many."""
    parts: list[str] = []
    text = text.expandtabs(4)
    while lines is None or len(parts) < lines:
        part = text[:width]
        while terminal.display_width(part) > width:
            part = part[:-1]
        if len(part) < len(text) and (space := part.rfind(" ")) > len(part) // 2:
            part = part[: space + 1]
        parts.append(part)
        text = text[len(part) or 1 :]
        if not text:
            break
    return parts


def _cut(line: Line, width: int) -> Line:
    """Cut a line to the screen's width."""
    parts: Line = []
    for style, text in line:
        text = terminal.cut(text.expandtabs(4), width)
        width -= terminal.display_width(text)
        parts.append((style, text))
        if width <= 0:
            break
    return parts


def _fill(lines: list[Line], height: int) -> list[Line]:
    """Return exactly `height` lines."""
    return [*lines, *([] for _ in range(height - len(lines)))][: max(0, height)]
