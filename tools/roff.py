"""Formatting text as roff, with the few man(7) requests that the manual needs. Pure."""

from __future__ import annotations

import re

_CHARACTERS = str.maketrans(
    {
        "\\": r"\e",
        "'": r"\(aq",
        "-": r"\-",
        "…": "...",
        "→": r"\(->",
        "–": r"\(en",
        "·": r"\(pc",
        "`": r"\(ga",
        "^": r"\(ha",
        "~": r"\(ti",
    }
)


def escape(text: str) -> str:
    """Escape text for roff; no line of it is taken as a request."""
    text = re.sub(r"[^\x00-\x7f]", lambda match: rf"\[u{ord(match[0]):04X}]", text.translate(_CHARACTERS))
    return re.sub(r"^\.", r"\\&.", text, flags=re.M)


def bold(text: str) -> str:
    return rf"\fB{escape(text)}\fR"


def italic(text: str) -> str:
    return rf"\fI{escape(text)}\fR"


def prose(text: str) -> str:
    """Format a paragraph of help or of a docstring, with bold for text between backquotes."""
    parts = re.split(r"`([^`\n]+)`", " ".join(text.split()))
    return "".join(bold(part) if number % 2 else escape(part) for number, part in enumerate(parts))


def paragraphs(text: str) -> str:
    """Format paragraphs separated by empty lines; one that begins with click's `\\b` is verbatim."""
    first, *rest = re.split(r"\n[ \t]*\n", text.strip("\n"))
    parts = [verbatim(part[2:]) if part.startswith("\b\n") else f".PP\n{prose(part)}" for part in rest]
    return "\n".join([prose(first), *parts])


def verbatim(text: str) -> str:
    """Format lines verbatim."""
    lines = "\n".join(escape(line) for line in text.rstrip().splitlines())
    return f".PP\n.RS 4\n.nf\n{lines}\n.fi\n.RE"


def tagged(items: list[tuple[str, str]]) -> str:
    """Format a list of terms with their explanations, both already roff."""
    return "\n".join(f".TP\n{term}\n{text}" for term, text in items)


def section(title: str, body: str) -> str:
    return f".SH {title}\n{body}\n" if body else ""


def header(name: str, number: int) -> str:
    comment = '.\\" Made by "make docs"; change what it is made from.\n'
    return f'{comment}.TH {escape(name.upper())} {number} "" "agh" "agh manual"\n'
