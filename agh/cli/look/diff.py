"""The change of a file: its path, how many lines it adds and removes, and the lines in their colours."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from agh.cli.look.turn_view import diff_lines
from agh.console.terminal import clean
from agh.console.theme import diff_role

DIFF_LINES = 40  # of a change in the conversation
INDENT = "  "


def paint_patch(
    patch: dict[str, Any], limit: int | None = DIFF_LINES, workspace: str | None = None
) -> list[Text]:
    """Return the lines of a change, the first `limit` of them and how many follow.

    The path is shown from the `workspace` on, if it is in there.
    """
    path = str(patch.get("path"))
    if workspace and path.startswith(f"{workspace.rstrip('/')}/"):
        path = path[len(workspace.rstrip("/")) + 1 :]
    lines = diff_lines(patch.get("oldText"), patch.get("newText"), path)[2:]
    added, removed = (sum(line.startswith(mark) for line in lines) for mark in "+-")
    head = Text(f"{INDENT}{clean(path)}", "muted", no_wrap=True, overflow="ellipsis")
    head.append(f"  +{added}", "added")
    head.append(f" -{removed}", "removed")
    return [head, *fold([paint_line(line, cut=limit is not None) for line in lines], limit)]


def paint_line(line: str, *, cut: bool) -> Text:
    """Return a line of a diff; `cut` cuts it at the edge of the screen instead of wrapping it."""
    text = f"{INDENT}{clean(line).expandtabs(4)}"
    return Text(text, diff_role(line) or "", no_wrap=cut, overflow="ellipsis" if cut else "fold")


def fold(lines: list[Text], limit: int | None, *, end: bool = False) -> list[Text]:
    """Return the first `limit` lines, or those at the `end`, and one that says how many are hidden.

    One line alone is never hidden.
    """
    if limit is None or len(lines) <= limit + 1:
        return lines
    note = Text(f"{INDENT}… {len(lines) - limit} {'lines above' if end else 'more lines'}", "muted")
    return [note, *lines[-limit:]] if end else [*lines[:limit], note]
