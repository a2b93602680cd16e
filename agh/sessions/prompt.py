"""Sending a prompt to a session, live or not."""

from __future__ import annotations

from typing import Any, NamedTuple

from agh.errors import AghError
from agh.keeper import client
from agh.sessions.start import ensure_live

_NOT_NOW = ("keeper_gone", "session_starting", "session_stopping")


class Sent(NamedTuple):
    """The keeper's receipt for a prompt, and its hello if the session had to be started for it."""

    receipt: dict[str, Any]
    started: dict[str, Any] | None


def send(directory: str, prompt: list[dict[str, Any]], **args: Any) -> Sent:
    """Queue a prompt, making the session live first if it is not."""
    started = None
    while True:
        try:
            return Sent(client.call(directory, "prompt", prompt=prompt, **args), started)
        except AghError as error:
            if error.code not in _NOT_NOW:
                raise
        hello = ensure_live(directory)
        started = hello if hello["started"] else started
