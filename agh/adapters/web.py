"""Applications that plugins serve beside the API and the page of `agh serve`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from agh.core.named_tuple import NamedTuple

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class WebApplication(NamedTuple):
    """An ASGI application for one path. It gets only requests that have passed the token and Origin checks.

    `close` is called when the server ends: open responses and WebSockets must end soon after it.
    """

    path: str
    app: Callable[[Message, Receive, Send], Awaitable[None]]
    close: Callable[[], None]

    @property
    def name(self) -> str:
        """Return what it is known by: the first plugin to register a path has it."""
        return self.path
