"""An agent's plan: a line for each step, with a mark for how far it is."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from agh.cli.look.paint import Marked
from agh.console.terminal import one_line
from agh.console.theme import Role
from agh.core.acp.plans import plan_lines

STEP_LENGTH = 400
_MARKS: dict[str, tuple[str, Role, Role | None]] = {
    "[x]": ("✓", "success", "muted"),
    "[>]": ("▸", "warning", "title"),
    "[ ]": ("○", "muted", None),
}


def paint_plan(update: Any) -> list[Marked]:
    """Return the lines of a plan; none if the update has none."""
    lines = []
    for line in plan_lines(update):
        mark, role, words_role = _MARKS.get(line[:3], ("·", "muted", None))
        words = line[4:] if line[:3] in _MARKS else line
        lines.append(Marked(mark, Text(one_line(words, STEP_LENGTH), words_role or ""), role))
    return lines
