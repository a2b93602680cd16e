"""agh-tutorial(7): docs/tutorial.md as a page of the manual."""

from __future__ import annotations

import re
from pathlib import Path

from tools.roff import header, prose, section, verbatim

SOURCE = Path(__file__).parent.parent / "docs/tutorial.md"


def page() -> str:
    """Format the tutorial as a page of the manual."""
    _, introduction, *parts = re.split(r"^#+ .*\n", f"\n{SOURCE.read_text()}", flags=re.M)
    titles = re.findall(r"^## (.*)$", SOURCE.read_text(), flags=re.M)
    name = r"agh\-tutorial \- from the first install to an unattended night"
    sections = [
        section(title.upper(), from_markdown(part)) for title, part in zip(titles, parts, strict=True)
    ]
    return "".join(
        (
            header("agh-tutorial", 7),
            section("NAME", name),
            section("DESCRIPTION", from_markdown(introduction)),
            *sections,
        )
    )


def from_markdown(text: str) -> str:
    """Format paragraphs, lists and blocks of code; a link becomes its text.

    The names of tests are left out.
    """
    text = re.sub(r"\s*\(?`tests/[^`]+`\)?", "", text)
    text = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text)
    pieces = re.split(r"^```\w*\n(.*?)^```\n", text, flags=re.M | re.S)
    formatted: list[str] = []
    for number, piece in enumerate(pieces):
        if number % 2:
            formatted.append(verbatim(piece))
            continue
        for paragraph in filter(str.strip, re.split(r"\n\s*\n", piece.strip("\n"))):
            items = re.split(r"^- ", paragraph, flags=re.M)
            formatted.append(f".PP\n{prose(items[0])}" if items[0] else "")
            formatted += [f".IP \\- 4\n{prose(item)}" for item in items[1:]]
    return "\n".join(filter(None, formatted)).removeprefix(".PP\n")
