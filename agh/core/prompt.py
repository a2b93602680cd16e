"""The size of a prompt, as its limit counts it; first and last lines for lists. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agh.errors import InputTooLarge

if TYPE_CHECKING:
    from agh.core.redaction.redact import Redactor

TITLE, LAST = 100, 200  # characters


def check_size(prompt: Sequence[dict[str, Any]], most: int) -> None:
    """Refuse a prompt with more than `most` bytes of text; attachments do not count."""
    size = sum(len(str(block.get("text", "")).encode()) for block in prompt)
    if size > most:
        raise InputTooLarge(size, most)


def title_of(text: str, redactor: Redactor) -> str | None:
    """Return the first line that is not empty, redacted and cut to the length of a title; else None."""
    for line in text.splitlines():
        if words := line.split():
            title = redactor.beginning(" ".join(words), TITLE)
            return title if len(title) < TITLE else title[: TITLE - 1] + "…"
    return None


def last_line(text: str, redactor: Redactor) -> str | None:
    """Return the last line that says something, redacted and cut at its beginning; else None.

    A line without a letter or a digit, such as the end of a code block, does not.
    """
    lines = [line for line in redactor.end(text, LAST).splitlines() if line.split()]
    if not lines:
        return None
    spoken = [line for line in lines if any(map(str.isalnum, line))]
    last = (spoken or lines)[-1]
    line = " ".join(last.split())
    return f"…{line[1:]}" if last is lines[0] and len(text) > LAST else line
