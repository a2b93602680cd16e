"""The size of a prompt, as its limit counts it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agh.errors import InputTooLarge


def check_size(prompt: Sequence[dict[str, Any]], most: int) -> None:
    """Refuse a prompt with more than `most` bytes of text; attachments do not count."""
    size = sum(len(str(block.get("text", "")).encode()) for block in prompt)
    if size > most:
        raise InputTooLarge(size, most)
