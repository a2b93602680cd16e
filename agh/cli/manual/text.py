"""A page of the manual as plain text, for machines without man(1).

Promises: understands the requests that the pages of agh use, and passes other text through. Pure.
"""

from __future__ import annotations

import re
import textwrap

INDENT = 7
CHARACTERS = {"aq": "'", "ga": "`", "ha": "^", "ti": "~", "->": "→", "en": "–", "pc": "·"}
_ARGUMENT = re.compile(r'"([^"]*)"|(\S+)')
_ESCAPE = re.compile(r"\\(?:f[BIRP]|\((..)|\[u([0-9A-F]{4,6})\]|([-&e]))")


def plain(roff: str) -> str:
    """Return text without the escapes of roff."""
    return _ESCAPE.sub(_character, roff)


def render(roff: str, width: int = 78) -> str:
    """Return a page as text of that width."""
    return _Page(width).render(roff)


def _character(match: re.Match[str]) -> str:
    special, code, single = match.groups()
    if special is not None:
        return CHARACTERS.get(special, "?")
    if code is not None:
        return chr(int(code, 16))
    return {"-": "-", "e": "\\"}.get(single or "", "")


class _Page:
    """A page that is being rendered."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.lines: list[str] = []
        self.words: list[str] = []
        self.tag: str | None = None  # of the paragraph that is being collected
        self.indent, self.hanging = INDENT, 0
        self.is_verbatim = self.expects_tag = False

    def render(self, roff: str) -> str:
        for line in roff.splitlines():
            request, _, argument = line.partition(" ")
            if line.startswith(".") and not self._obey(request, argument):
                continue
            text = plain(_join(request, argument) if line.startswith(".") else line)
            if self.is_verbatim:
                self.lines.append(" " * self.indent + text)
            elif self.expects_tag:
                self.tag, self.expects_tag = text, False
            else:
                self.words.append(text)
        self._end_paragraph()
        return "\n".join(line.rstrip() for line in self.lines).strip() + "\n"

    def _obey(self, request: str, argument: str) -> bool:
        """Obey a request; tell whether its argument is text of the page."""
        if request in (".B", ".I", ".BR", ".BI"):
            return True
        self._end_paragraph()
        match request:
            case ".TH":
                name, section, *_ = argument.split()
                self.lines.append(f"{plain(name)}({section})")
            case ".SH" | ".SS":
                self.hanging = 0
                self.lines += ["", plain(argument) if request == ".SH" else f"   {plain(argument)}"]
            case ".PP":
                self.hanging = 0
                self._separate()
            case ".TP":
                self.hanging, self.expects_tag = INDENT, True
                self._separate()
            case ".IP":
                self.hanging, self.tag = 4, plain(argument.partition(" ")[0])
            case ".RS" | ".RE":
                self.indent += int(argument or 4) if request == ".RS" else -4
            case ".nf" | ".fi":
                self.is_verbatim = request == ".nf"
        return False

    def _separate(self) -> None:
        """Leave an empty line before what follows, unless it follows a heading."""
        if self.lines and self.lines[-1].startswith(" " * INDENT):
            self.lines.append("")

    def _end_paragraph(self) -> None:
        """Write what was collected, its tag on a line of its own unless it is short."""
        if self.tag is None and not self.words:
            return
        first = rest = " " * (self.indent + self.hanging)
        if self.tag is not None:
            first = " " * self.indent + self.tag
            if len(first) < len(rest) and self.words:
                first = first.ljust(len(rest))
            else:
                self.lines.append(first)
                first = rest
        text = " ".join(self.words)
        self.lines += textwrap.wrap(
            text,
            self.width,
            initial_indent=first,
            subsequent_indent=rest,
            break_long_words=False,
            break_on_hyphens=False,
        )
        self.words, self.tag = [], None


def _join(request: str, argument: str) -> str:
    """Return the text of a request for fonts: .BR and .BI join their arguments without spaces."""
    words = [quoted or word for quoted, word in _ARGUMENT.findall(argument)]
    return ("" if request in (".BR", ".BI") else " ").join(words)
