"""Sessions as a table for people.

Promises that no line is longer than a terminal of at least 40 columns is wide: columns that do not fit are
left out, the least important first. In a pipe nothing is left out or cut. Reads nothing but the views.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from agh.console import terminal
from agh.console.when import age, clock
from agh.store.sessions import session_ids
from agh.store.views import View

if TYPE_CHECKING:
    from agh.console.theme import Role

NEEDS_YOU = ("waiting-for-input", "waiting-for-auth", "hung", "unhealthy", "not-responding")
GAP = 2
NAME, ID, STATUS = range(3)  # the first columns
EXACT = {"ID", "STATUS", "ACTIVE", "COST"}  # agh's own words, never cut
WIDE = 1 << 20  # as wide as it takes
STATUS_ROLES: dict[str, Role] = {
    "running": "success",
    "idle": "note",
    "waiting-for-input": "warning",
    "waiting-for-auth": "warning",
    "failed": "error",
    "hung": "error",
    "unhealthy": "error",
    "not-responding": "error",
    "unknown": "error",
}


class Line(NamedTuple):
    """A session's line in three parts: the status has a colour of its own."""

    before: str
    status: str
    behind: str


class Column(NamedTuple):
    """A column: its rank decides which are left out first; it has from `least` to `most` characters."""

    header: str
    rank: int
    least: int
    most: int
    value: Callable[[View], str]
    is_optional: bool = True  # left out if no session has a value
    from_width: int = 0


def needs_you(view: View) -> bool:
    """Tell whether a session waits for its user, or for help."""
    return view["badge"] in NEEDS_YOU


def table(views: Sequence[View]) -> str:
    """Return the table, with colours if the terminal has them; nothing if there are no sessions."""
    if not views:
        return ""
    width = terminal.width() if terminal.is_terminal() else WIDE
    if not terminal.is_fancy():
        columns = _lay_out_columns(views, width).values()
        return "".join([f"{''.join(row).rstrip()}\n" for row in zip(*columns, strict=True)])
    header, rows = lay_out(views, width)
    styled = cache(terminal.styled)  # few texts differ, and each time the theme is looked up
    lines = [styled(header, "title")]
    for view, row in zip(views, rows, strict=True):
        lines.append(row.before + styled(row.status, status_role(view)) + row.behind)
    return "\n".join(lines) + "\n"


def lay_out(views: Sequence[View], width: int) -> tuple[str, list[Line]]:
    """Return the header, and the line of each session, for a terminal of this width."""
    header, *lines = _split(_lay_out_columns(views, width), len(views) + 1)
    return "".join(header), lines


def _lay_out_columns(views: Sequence[View], width: int) -> dict[int, list[str]]:
    """Return the columns that fit, each with its header and as wide as it is shown."""
    columns, cells = _fill(views, width)
    widths = _choose(columns, cells, width)
    if ID not in widths:
        cells[NAME] = [
            name if view.get("name") else id
            for view, name, id in zip(views, cells[NAME], cells[ID], strict=True)
        ]
    last = max(widths, default=NAME)
    return {
        n: _pad([columns[n].header, *cells[n]], width, 0 if n == last else GAP) for n, width in widths.items()
    }


def status_role(view: View) -> Role:
    """Return what the session's status means to the reader, for its colour."""
    return STATUS_ROLES.get(view["badge"], "muted")


def _fill(views: Sequence[View], width: int) -> tuple[list[Column], list[list[str]]]:
    """Return the columns that have something to show, and the cells of each."""
    now = datetime.now(UTC)
    home = os.path.expanduser("~")
    short = {} if width == WIDE else _short_ids(views)
    columns = [
        Column("NAME", 0, 10 if width < 60 else 20, 28, format_name, is_optional=False),
        Column("ID", 2, 4, 30, lambda view: short.get(view["id"], str(view["id"])), is_optional=False),
        Column("STATUS", 1, 4, 30, lambda view: _status(view, now), is_optional=False),
        Column("HOST", 1, 8, 28, lambda view: str(view.get("host") or "")),
        Column("AGENT", 5, 5, 16, lambda view: str(view.get("agent_name") or "")),
        Column("MODEL", 7, 8, 24, format_model),
        Column("COST", 6, 4, 12, format_cost),
        Column("ACTIVE", 3, 6, 6, lambda view: age(view.get("updated_at"), now), is_optional=False),
        Column("LAST MESSAGE", 4, 16, 200, last_line),
        Column("DIRECTORY", 8, 12, 40, lambda view: format_directory(view, home), from_width=120),
    ]
    cells = [_clean(column, list(map(column.value, views))) for column in columns]
    used = [
        n
        for n, column in enumerate(columns)
        if width >= column.from_width and (not column.is_optional or any(cells[n]))
    ]
    return [columns[n] for n in used], [[text or "-" for text in cells[n]] for n in used]


def _status(view: View, now: datetime) -> str:
    """Return the status, and of a limited session also when it continues."""
    until = view.get("resumes_at") if view["badge"] == "limited" else None
    return f"limited until {clock(str(until), now)}" if until else str(view["badge"])


def _clean(column: Column, texts: list[str]) -> list[str]:
    """Return the texts as they may be shown. Most columns have few different ones (saves 10 ms of 10,000)."""
    if column.header in EXACT:
        return texts
    lines = {text: terminal.one_line(text, 1000) for text in set(texts)}
    return [lines[text] for text in texts]


def _choose(columns: list[Column], cells: list[list[str]], width: int) -> dict[int, int]:
    """Return the columns that fit, in order, with their widths."""
    natural = {n: max(len(column.header), _width(cells[n])) for n, column in enumerate(columns)}
    if width == WIDE:
        return natural
    widths: dict[int, int] = {}
    rest = width
    for n in sorted(natural, key=lambda n: columns[n].rank):
        least = natural[n] if columns[n].header in EXACT else min(natural[n], columns[n].least)
        if least + (GAP if widths else 0) > rest:
            continue
        widths[n] = least
        rest -= least + (GAP if len(widths) > 1 else 0)
    for n in sorted(widths, key=lambda n: (columns[n].header == "LAST MESSAGE", columns[n].rank)):
        more = min(rest, min(natural[n], columns[n].most) - widths[n])
        if more > 0:
            widths[n], rest = widths[n] + more, rest - more
    return {n: widths[n] for n in sorted(widths)}


def _split(columns: dict[int, list[str]], count: int) -> list[Line]:
    """Return the lines of these columns, without spaces at their ends."""
    before = [texts for n, texts in columns.items() if n < STATUS]
    behind = [texts for n, texts in columns.items() if n > STATUS]
    starts = map("".join, zip(*before, strict=True)) if before else [""] * count
    ends = map("".join, zip(*behind, strict=True)) if behind else [""] * count
    if STATUS not in columns:
        return [Line((start + end).rstrip(), "", "") for start, end in zip(starts, ends, strict=True)]
    return [
        Line(start, status.rstrip(), (" " * (len(status) - len(status.rstrip())) + end).rstrip())
        for start, status, end in zip(starts, columns[STATUS], ends, strict=True)
    ]


def _width(texts: list[str]) -> int:
    """Return the width of the widest text; ASCII is measured at once (saves 8 ms of 10,000 sessions)."""
    return max(map(len if "".join(texts).isascii() else terminal.display_width, texts))


def _pad(texts: list[str], width: int, gap: int) -> list[str]:
    """Cut or pad each text to this width, and add the gap to the next column.

    Whole columns are padded at once: line by line, a list of 10,000 sessions would take twice as long.
    """
    if "".join(texts).isascii() and max(map(len, texts)) <= width:
        return [text.ljust(width + gap) for text in texts]
    padded = []
    for text in texts:
        text = terminal.cut(text, width)
        padded.append(text + " " * (width + gap - terminal.display_width(text)))
    return padded


def format_name(view: View) -> str:
    """Return the name that its user gave the session, or its title."""
    return str(view.get("name") or view.get("title") or "")


def format_model(view: View) -> str:
    """Return the model that is in use, if it is known."""
    return str((view.get("current") or {}).get("model") or view.get("model") or "")


def format_cost(view: View) -> str:
    """Return what the session has cost so far; nothing if that is not known."""
    spent = view.get("spent") or {}
    amount, currency = spent.get("cost_amount"), str(spent.get("cost_currency") or "USD")
    if not isinstance(amount, int | float) or not amount:
        return ""
    return f"${amount:.2f}" if currency == "USD" else f"{amount:.2f} {terminal.one_line(currency, 8)}"


def last_line(view: View) -> str:
    """Return what the agent asks or said last, or what is wrong with the session."""
    if "error" in view:
        return str(view["error"]["message"])
    if view.get("why_not"):
        return str(view["why_not"]["message"])
    failure = (view.get("failure") or {}).get("summary") if view["badge"] == "failed" else None
    text = str(_question(view) or failure or view.get("last_message") or "")
    if orphaned := view.get("orphaned_questions"):
        text = f"({orphaned} open {'question' if orphaned == 1 else 'questions'}) {text}"
    if unanswered := view.get("unanswered_permissions"):
        text = f"({unanswered} unanswered) {text}"
    return text.rstrip()


def _question(view: View) -> str:
    activity = view.get("activity")
    if not activity:
        return ""
    if activity.get("waiting_for_slot"):
        return "waiting for a slot"
    if activity.get("disconnected_at"):
        return f"no connection to {view.get('place')}; the session continues there"
    question = str(activity.get("question") or "")
    if view.get("workspace_path"):
        question = question.replace(f"{view['workspace_path']}/", "")  # the end of a path says more
    return question


def format_directory(view: View, home: str) -> str:
    """Return the workspace's path, with ~ for the user's home."""
    path = str(view.get("workspace_path") or "")
    return f"~{path[len(home) :]}" if f"{path}/".startswith(f"{home}/") else path


def _short_ids(views: Sequence[View]) -> dict[str, str]:
    """Return the shortest prefixes, of at least four characters, that name one session each."""
    ids = sorted({*session_ids(), *(str(view["id"]) for view in views)})
    prefix = "sess-"
    lengths = dict.fromkeys(ids, len(prefix) + 4)
    for first, second in pairwise(ids):
        common = next((n for n, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), 0) + 1
        lengths[first], lengths[second] = max(lengths[first], common), max(lengths[second], common)
    return {id: id[:length].removeprefix(prefix) for id, length in lengths.items()}
