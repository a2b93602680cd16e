"""Text as roff: the few requests of man(7) that the manual needs. Pure."""

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
    """Text that roff takes literally; a line of it never reads as a request."""
    text = re.sub(r"[^\x00-\x7f]", lambda one: rf"\[u{ord(one[0]):04X}]", text.translate(_CHARACTERS))
    return re.sub(r"^\.", r"\\&.", text, flags=re.M)


def bold(text: str) -> str:
    return rf"\fB{escape(text)}\fR"


def italic(text: str) -> str:
    return rf"\fI{escape(text)}\fR"


def prose(text: str) -> str:
    """A paragraph of help or of a docstring: what stands between backquotes is bold."""
    parts = re.split(r"`([^`\n]+)`", " ".join(text.split()))
    return "".join(bold(part) if number % 2 else escape(part) for number, part in enumerate(parts))


def paragraphs(text: str) -> str:
    """Prose divided by empty lines."""
    return "\n.PP\n".join(prose(part) for part in re.split(r"\n\s*\n", text.strip()))


def verbatim(text: str) -> str:
    """Lines that stay as they are."""
    lines = "\n".join(escape(line) for line in text.rstrip().splitlines())
    return f".PP\n.RS 4\n.nf\n{lines}\n.fi\n.RE"


def tagged(items: list[tuple[str, str]]) -> str:
    """A list of terms, already roff, each with its explanation."""
    return "\n".join(f".TP\n{term}\n{text}" for term, text in items)


def section(title: str, body: str) -> str:
    return f".SH {title}\n{body}\n" if body else ""


def header(name: str, number: int) -> str:
    made_by = '.\\" Made by "make docs"; change what it is made from.\n'
    return f'{made_by}.TH {escape(name.upper())} {number} "" "agh" "agh manual"\n'
