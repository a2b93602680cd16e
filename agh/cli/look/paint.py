"""A console of Rich with the styles of the theme, which go by their roles: `Text(words, "muted")`.

Everything that is painted, live or past, is painted on a console from here.
"""

from __future__ import annotations

from io import StringIO
from typing import IO, Any

from pygments import token  # type: ignore[import-untyped]
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.style import Style
from rich.syntax import ANSISyntaxTheme
from rich.text import Text
from rich.theme import Theme

from agh.console import terminal, theme
from agh.console.theme import Role
from agh.core.named_tuple import NamedTuple

# The parts of Markdown that Rich would paint in colours of its own.
_MARKDOWN: dict[str, Role | None] = {
    "code": "code",
    "block_quote": "muted",
    "list": None,
    "item.bullet": "muted",
    "item.number": "muted",
    "hr": "muted",
    **dict.fromkeys(("h1", "h2", "h3", "h4", "h5", "h6"), "title"),
    "link": "note",
    "link_url": "note",
    "table.border": "muted",
    "table.header": "title",
    "kbd": "code",
}
_TOKENS: dict[Any, Role] = {
    token.Comment: "comment",
    token.Keyword: "keyword",
    token.Keyword.Constant: "number",
    token.Operator.Word: "keyword",
    token.Name.Builtin: "function",
    token.Name.Class: "function",
    token.Name.Decorator: "function",
    token.Name.Function: "function",
    token.Name.Tag: "keyword",
    token.Name.Attribute: "function",
    token.Number: "number",
    token.String: "string",
    token.String.Doc: "comment",
    token.Generic.Inserted: "added",
    token.Generic.Deleted: "removed",
    token.Generic.Subheading: "hunk",
    token.Generic.Heading: "title",
    token.Generic.Prompt: "muted",
}


class Marked(NamedTuple):
    """A text behind a mark; its further lines begin below the first one's text."""

    mark: str
    text: Text
    mark_role: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        indent = len(self.mark) + 1
        lines = self.text.wrap(console, max(8, options.max_width - indent), overflow="fold")
        for number, line in enumerate(lines or [Text()]):
            line.rstrip()
            yield Text.assemble((f"{self.mark} ", self.mark_role) if number == 0 else " " * indent, line)


def make_console(file: IO[str] | None = None, width: int | None = None) -> Console:
    """Return a console for stdout, or for a file that gets what a terminal of this width would."""
    palette = theme.name()
    return Console(
        file=file,
        width=width,  # without one, that of the terminal at every moment
        theme=Theme(_styles()),
        highlight=False,
        markup=False,
        emoji=False,
        force_terminal=True,
        color_system=None if palette == "none" else "standard" if palette == "basic" else "256",
    )


class Canvas:
    """Paints one thing after another for a terminal of this width, by default the one that is there."""

    def __init__(self, width: int | None = None) -> None:
        self._text = StringIO()
        self._console = make_console(self._text, width or terminal.width())

    def paint(self, part: RenderableType) -> str:
        """Return what a terminal gets to show this, with the escape sequences of its styles."""
        self._console.print(part)
        text = self._text.getvalue()
        self._text.seek(0)
        self._text.truncate()
        return text


def code_theme() -> ANSISyntaxTheme:
    """Return the colours of code, without a background."""
    return ANSISyntaxTheme({kind: _style(role) for kind, role in _TOKENS.items()})


def _styles() -> dict[str, Style]:
    styles: dict[str, Style] = {role: _style(role) for role in theme.palettes()}
    for part, role in _MARKDOWN.items():
        styles[f"markdown.{part}"] = _style(role) if role else Style.null()
    return styles


def _style(role: Role) -> Style:
    """Return a style of the theme as one of Rich."""
    words = theme.style(role).split()
    return Style.parse(" ".join(f"color({word})" if word.isdecimal() else word for word in words))
