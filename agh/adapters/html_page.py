"""The HTML transcript as a complete document: the messages in a frame, with a style sheet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from agh.core.html.page import document
from agh.core.transcript import Message


def page(session: Mapping[str, Any], messages: Sequence[Message], *, generated_at: str) -> str:
    """Return the document for a session, as `status.view` describes it, and its messages."""
    frame, sheet = _asset("transcript.html"), style()
    return document(session, messages, generated_at=generated_at, frame=frame, style=sheet)


def style() -> str:
    """Return the style sheet."""
    return _asset("transcript.css")


@cache
def _asset(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")
