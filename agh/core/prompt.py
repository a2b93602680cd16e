"""The size of a prompt, as its limit counts it, and its first line as a title. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agh.errors import InputTooLarge

TITLE = 100  # characters


def check_size(prompt: Sequence[dict[str, Any]], most: int) -> None:
    """Refuse a prompt with more than `most` bytes of text; attachments do not count."""
    size = sum(len(str(block.get("text", "")).encode()) for block in prompt)
    if size > most:
        raise InputTooLarge(size, most)


def title_of(text: str) -> str | None:
    """Return the first line that is not empty, cut to the length of a title; None if there is none."""
    for line in text.splitlines():
        if words := line.split():
            title = " ".join(words)
            return title if len(title) <= TITLE else title[: TITLE - 1] + "…"
    return None
