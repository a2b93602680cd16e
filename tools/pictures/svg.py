"""A screen as an SVG that needs no fonts and fetches nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

import pyte
from pyte.screens import Char
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console, Group
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from rich.text import Text

_NORMAL = {
    "dark": [(28, 28, 28), (224, 108, 117), (152, 195, 121), (229, 192, 123)]
    + [(97, 175, 239), (198, 120, 221), (86, 182, 194), (208, 208, 208)],
    "light": [(56, 58, 66), (202, 18, 67), (64, 126, 48), (152, 104, 1)]
    + [(0, 92, 197), (166, 38, 164), (1, 112, 138), (160, 161, 167)],
}
THEMES = {
    "dark": TerminalTheme((24, 26, 31), (214, 218, 224), _NORMAL["dark"], _NORMAL["dark"]),
    "light": TerminalTheme((255, 255, 255), (36, 41, 47), _NORMAL["light"], _NORMAL["light"]),
}
_PLAIN = Console()
_NAMES = {"brown": "yellow"}  # pyte's name for it


def picture(screen: pyte.Screen, background: str, title: str, replace: Mapping[str, str]) -> str:
    """Return the screen as an SVG; `replace` has patterns of what changes from run to run, and texts."""
    lines = [_line(screen, number, replace) for number in range(screen.lines)]
    while lines and not lines[-1].plain.strip():
        lines.pop()
    lines.append(Text())  # room for the lowest letters
    with open(os.devnull, "w") as nowhere:
        console = Console(
            record=True, width=screen.columns, file=nowhere, force_terminal=True, color_system="truecolor"
        )
        console.print(Group(*lines), overflow="crop", no_wrap=True)
        template = re.sub(r"@font-face \{\{.*?\}\}|<!--.*?-->", "", CONSOLE_SVG_FORMAT, flags=re.S)
        svg = console.export_svg(title=title, theme=THEMES[background], code_format=template, unique_id="agh")
    if background == "light":  # the frame must show on a white page
        svg = svg.replace("rgba(255,255,255,0.35)", "rgba(0,0,0,0.25)")
    return re.sub(r"[ \t]+$", "", svg, flags=re.M).strip() + "\n"


def _line(screen: pyte.Screen, number: int, replace: Mapping[str, str]) -> Text:
    row = screen.buffer[number]
    line = Text()
    for column in range(screen.columns):
        line.append(row[column].data, _style(row[column]))
    line.rstrip()
    for pattern, text in replace.items():
        for match in reversed(list(re.finditer(pattern, line.plain))):
            start, end = match.span()
            style = line.get_style_at_offset(_PLAIN, start)
            line = Text.assemble(line[:start], (text, style), line[end:])
    return line


def _style(cell: Char) -> Style:
    return Style(
        color=_colour(cell.fg),
        bgcolor=_colour(cell.bg),
        bold=cell.bold or None,
        italic=cell.italics or None,
        underline=cell.underscore or None,
        reverse=cell.reverse or None,
    )


def _colour(name: str) -> str | None:
    if name == "default":
        return None
    return (
        f"#{name}"
        if re.fullmatch("[0-9a-f]{6}", name)
        else _NAMES.get(name, name.replace("bright", "bright_"))
    )
