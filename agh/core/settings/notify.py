"""Notifications, as `[notify]` in the settings defines them. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agh.core.named_tuple import NamedTuple
from agh.core.settings.values import command_words, seconds

EVENTS = ("needs_you", "turn_end", "failed", "limited", "stopped")
OSC_KINDS = ("9", "777", "99")
SENDERS = ("desktop", "ntfy", "webhook", "command", "apprise")


class Notify(NamedTuple):
    """Who is notified, and of what.

    `bell` and `osc` are for the terminal of a command; the others are started by the keeper.
    """

    bell: bool = False
    osc: str = ""
    desktop: bool = False
    ntfy: str = ""
    ntfy_token: str = ""
    webhook: str = ""
    command: tuple[str, ...] = ()
    apprise: tuple[str, ...] = ()
    events: tuple[str, ...] = EVENTS
    turn_end_after: float = 60.0
    grace: float = 10.0
    timeout: float = 10.0

    @property
    def senders(self) -> list[str]:
        """List the notifiers that need no terminal."""
        return [name for name in SENDERS if getattr(self, name)]


def read_notify(table: Any) -> Notify:
    """Return the notifiers in a setting's value. Raise ValueError for the first thing that is wrong."""
    if not isinstance(table, dict):
        raise ValueError("must be a table: [notify]")
    values: dict[str, Any] = {}
    for name, value in table.items():
        if name not in _READERS:
            raise ValueError(f"unknown key {name!r}; allowed: {', '.join(_READERS)}")
        try:
            values[name] = _READERS[name](value)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return Notify(**values)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value


def _osc(value: Any) -> str:
    if str(value) not in OSC_KINDS:
        raise ValueError(f"{value!r} is not one of {', '.join(OSC_KINDS)}")
    return str(value)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise ValueError("must be a single line of text")
    return value


def _url(value: Any) -> str:
    if not _text(value).startswith(("http://", "https://")):
        raise ValueError("must be a URL that begins with http:// or https://")
    return str(value)


def _topic(value: Any) -> str:
    host, _, topic = _url(value).partition("//")[2].partition("/")
    if not host or not topic:
        raise ValueError("must be the URL of a topic, such as https://ntfy.sh/my-topic")
    return str(value)


def _command(value: Any) -> tuple[str, ...]:
    _, words = command_words(value)
    if not words:
        raise ValueError("must be a shell command, or a list of words")
    return words


def _apprise(value: Any) -> tuple[str, ...]:
    urls = [value] if isinstance(value, str) else value
    if not isinstance(urls, list) or not urls:
        raise ValueError("must be a list of Apprise URLs")
    for number, url in enumerate(urls, 1):  # no error quotes one: they have passwords in them
        if not isinstance(url, str) or not url.isprintable() or "://" not in url:
            raise ValueError(f"entry number {number} is not an Apprise URL, such as tgram://TOKEN/CHAT")
    return tuple(urls)


def _events(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(name in EVENTS for name in value):
        raise ValueError(f"must be a list of any of these: {', '.join(EVENTS)}")
    return tuple(value)


_READERS: dict[str, Callable[[Any], Any]] = {
    "bell": _flag,
    "osc": _osc,
    "desktop": _flag,
    "ntfy": _topic,
    "ntfy_token": _text,
    "webhook": _url,
    "command": _command,
    "apprise": _apprise,
    "events": _events,
    "turn_end_after": seconds,
    "grace": seconds,
    "timeout": seconds,
}
