"""Markdown on a terminal, in blocks.

A text is painted block by block: a paragraph, a whole list, a whole piece of code. So it looks the same if it
comes in chunks and if it is there from the start.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import ClassVar

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.padding import Padding
from rich.segment import Segment
from rich.syntax import Syntax

from agh.cli.look.paint import code_theme

INDENT = 2  # of code


def split_blocks(text: str) -> tuple[list[str], str]:
    """Return the blocks that no later text can change, and the rest, which begins with the last block."""
    end = text.rfind("\n") + 1  # a line that is not complete may still become anything
    lines = text[:end].splitlines(keepends=True)
    tokens = MarkdownIt().enable("table").parse(text[:end])
    starts = [token.map[0] for token in tokens if token.level == 0 and token.map and token.nesting >= 0]
    if len(starts) < 2:
        return [], text
    blocks = ["".join(lines[start:end]) for start, end in pairwise(starts)]
    return blocks, "".join(lines[starts[-1] :]) + text[end:]


def newest_lines(block: str, count: int) -> str:
    """Return the end of a block in progress, of at most this many lines; code stays code."""
    lines = block.splitlines(keepends=True)
    if len(lines) <= count:
        return block
    is_code = lines[0].lstrip().startswith(("```", "~~~"))
    return "".join([*lines[:1], *lines[-count:]] if is_code else lines[-count:])


class _Code(CodeBlock):
    """A piece of code: highlighted, indented, on the terminal's own background."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        syntax = Syntax("", self.lexer_name, theme=code_theme())
        code = syntax.highlight(str(self.text).rstrip().expandtabs(4))
        code.rstrip()
        code.no_wrap, code.overflow = False, "fold"
        yield Padding(code, (0, 0, 0, INDENT), expand=False)


class _Heading(Heading):
    """A heading on the left, at every level."""

    LEVEL_ALIGN: ClassVar = {}


class Prose(Markdown):
    """Markdown in the styles of the theme. Links are written out: a hidden target could mislead."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "fence": _Code,
        "code_block": _Code,
        "heading_open": _Heading,
    }

    def __init__(self, text: str) -> None:
        super().__init__(text, hyperlinks=False)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines without the blanks that Rich puts around them: nobody wants to copy those."""
        parts = super().__rich_console__(console, options)
        lines = [_strip_end(line) for line in Segment.split_lines(_segments(console, options, parts))]
        filled = [number for number, line in enumerate(lines) if line]
        for line in lines[filled[0] : filled[-1] + 1] if filled else []:
            yield from line
            yield Segment.line()


def _segments(console: Console, options: ConsoleOptions, parts: RenderResult) -> Iterator[Segment]:
    for part in parts:
        if isinstance(part, Segment):
            yield part
        else:
            yield from console.render(part, options)


def _strip_end(line: list[Segment]) -> list[Segment]:
    """Return a line without white space at its end."""
    while line and not line[-1].text.strip():
        line = line[:-1]
    return [*line[:-1], Segment(line[-1].text.rstrip(), line[-1].style)] if line else []
