"""Sessions as a table for people.

Promises that no line is longer than a terminal of at least 40 columns is wide: columns that do not fit are
left out, the least important first. In a pipe nothing is left out or cut. Reads nothing but the briefs.

Whole columns are made at once: with a call for each cell, a list of 10,000 sessions would take 45 ms more.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from agh.console import terminal
from agh.console.when import age, clock
from agh.core.display.brief import LONGEST, Brief
from agh.core.named_tuple import NamedTuple
from agh.store.sessions import session_ids

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
    cells: Sequence[str]
    is_optional: bool = True  # left out if no session has a value
    from_width: int = 0
    width: int = 0  # of the widest cell or the header
    is_ascii: bool = False


class Cells(NamedTuple):
    """The cells of a column, its header first, and how each is written into its line."""

    format: str
    texts: list[str]


def needs_you(badge: str) -> bool:
    """Tell whether a session with this badge waits for its user, or for help."""
    return badge in NEEDS_YOU


def table(briefs: Sequence[Brief]) -> str:
    """Return the table, with colours if the terminal has them; nothing if there are no sessions."""
    if not briefs:
        return ""
    width = terminal.width() if terminal.is_terminal() else WIDE
    if not terminal.is_fancy():
        return "\n".join([*_join([*_lay_out_columns(briefs, width).values()]), ""])
    header, rows = lay_out(briefs, width)
    styled = cache(terminal.styled)  # few texts differ, and each time the theme is looked up
    lines = [styled(header, "title")]
    for brief, row in zip(briefs, rows, strict=True):
        lines.append(row.before + styled(row.status, status_role(brief.badge)) + row.behind)
    return "\n".join(lines) + "\n"


def lay_out(briefs: Sequence[Brief], width: int) -> tuple[str, list[Line]]:
    """Return the header, and the line of each session, for a terminal of this width."""
    header, *lines = _split(_lay_out_columns(briefs, width), len(briefs) + 1)
    return "".join(header), lines


def _lay_out_columns(briefs: Sequence[Brief], width: int) -> dict[int, Cells]:
    """Return the columns that fit, each with its header and as wide as it is shown."""
    columns = _fill(briefs, width)
    widths = _choose(columns, width)
    if ID not in widths:
        names = zip(briefs, columns[NAME].cells, columns[ID].cells, strict=True)
        cells = [name if brief.name else short_id for brief, name, short_id in names]
        columns[NAME] = _measure(columns[NAME]._replace(cells=cells))
    last = max(widths, default=NAME)
    return {n: _pad(columns[n], width, 0 if n == last else GAP) for n, width in widths.items()}


def status_role(badge: str) -> Role:
    """Return what a session's status means to the reader, for its colour."""
    return STATUS_ROLES.get(badge, "muted")


def _fill(briefs: Sequence[Brief], width: int) -> list[Column]:
    """Return the columns that have something to show."""
    now = datetime.now(UTC)
    values: Any = zip(*briefs, strict=True)
    fields = Brief(*values)  # each field has the values of all sessions
    home = os.path.expanduser("~")
    directories = _distinct(lambda path: format_directory(path, home), fields.workspace_path)
    ids = fields.id if width == WIDE else _short_ids(fields.id)
    columns = [
        Column("NAME", 0, 10 if width < 60 else 20, 28, fields.label, is_optional=False),
        Column("ID", 2, 4, 30, ids, is_optional=False),
        Column("STATUS", 1, 4, 30, _statuses(fields.badge, fields.resumes_at, now), is_optional=False),
        Column("HOST", 1, 8, 28, fields.host),
        Column("AGENT", 5, 5, 16, _distinct(lambda name: terminal.one_line(name, LONGEST), fields.agent)),
        Column("MODEL", 7, 8, 24, fields.model),
        Column("COST", 6, 4, 12, fields.cost),
        Column("ACTIVE", 3, 6, 6, [age(at, now) for at in fields.updated_at], is_optional=False),
        Column("LAST MESSAGE", 4, 16, 200, fields.last_line),
        Column("DIRECTORY", 8, 12, 40, directories, from_width=120),
    ]
    return [
        _measure(column)
        for column in columns
        if width >= column.from_width and (not column.is_optional or any(column.cells))
    ]


def _measure(column: Column) -> Column:
    """Return the column with its width and no cell empty. ASCII is measured at once (8 ms of 10,000)."""
    cells = column.cells if all(column.cells) else [cell or "-" for cell in column.cells]
    is_ascii = "".join(cells).isascii()
    widest = max(map(len if is_ascii else terminal.display_width, cells))
    return column._replace(cells=cells, width=max(len(column.header), widest), is_ascii=is_ascii)


def _statuses(badges: Sequence[str], times: Sequence[str], now: datetime) -> Sequence[str]:
    """Return the status of each, and of a limited session also when it continues."""
    if "limited" not in badges:
        return badges
    return [
        f"limited until {clock(at, now)}" if at and badge == "limited" else badge
        for badge, at in zip(badges, times, strict=True)
    ]


def _distinct(make: Callable[[str], str], texts: Sequence[str]) -> list[str]:
    """Make something of each text, of each distinct one only once: there are few agents and directories."""
    results = {text: make(text) for text in set(texts)}
    return [results[text] for text in texts]


def _choose(columns: list[Column], width: int) -> dict[int, int]:
    """Return the columns that fit, in order, with their widths."""
    natural = {n: column.width for n, column in enumerate(columns)}
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


def _split(columns: dict[int, Cells], count: int) -> list[Line]:
    """Return the lines of these columns, without spaces at their ends."""
    before = [cells for n, cells in columns.items() if n < STATUS]
    behind = [cells for n, cells in columns.items() if n > STATUS]
    starts = _join(before) if before else [""] * count
    ends = _join(behind) if behind else [""] * count
    if STATUS not in columns:
        return [Line((start + end).rstrip(), "", "") for start, end in zip(starts, ends, strict=True)]
    return [
        Line(start, status.rstrip(), (" " * (len(status) - len(status.rstrip())) + end).rstrip())
        for start, status, end in zip(starts, _join([columns[STATUS]]), ends, strict=True)
    ]


def _join(columns: Sequence[Cells]) -> list[str]:
    """Return the lines of these columns. One format for all cells of a line saves 5 ms of 10,000 lines."""
    line = "".join(cells.format for cells in columns)
    return [line % row for row in zip(*(cells.texts for cells in columns), strict=True)]


def _pad(column: Column, width: int, gap: int) -> Cells:
    """Cut or pad each text to this width, and add the gap to the next column; the last one is not padded."""
    texts = [column.header, *column.cells]
    if column.is_ascii and column.width <= width:
        return Cells(f"%-{width + gap}s" if gap else "%s", texts)
    texts = [terminal.cut(text, width) for text in texts]
    if gap:
        texts = [text + " " * (width + gap - terminal.display_width(text)) for text in texts]
    return Cells("%s", texts)


def format_directory(path: str, home: str) -> str:
    """Return the path of a workspace, with ~ for the user's home."""
    path = f"~{path[len(home) :]}" if f"{path}/".startswith(f"{home}/") else path
    return terminal.one_line(path, LONGEST)


def _short_ids(listed: Sequence[str]) -> list[str]:
    """Return the shortest prefixes, of at least four characters, that name one session each."""
    ids = sorted({*session_ids(), *listed})
    prefix = "sess-"
    lengths = dict.fromkeys(ids, len(prefix) + 4)
    for first, second in pairwise(ids):
        common = next((n for n, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), 0) + 1
        lengths[first], lengths[second] = max(lengths[first], common), max(lengths[second], common)
    return [id[: lengths[id]].removeprefix(prefix) for id in listed]
