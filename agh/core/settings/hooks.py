"""Hooks: commands that the user wants run on events of a session, as settings define them. Pure."""

from __future__ import annotations

from typing import Any

from agh.core.named_tuple import NamedTuple
from agh.core.settings.values import command_words, seconds

HOOK_EVENTS = (
    "session_start",
    "session_resume",
    "prompt",
    "permission",
    "question",
    "turn_end",
    "session_stop",
)
HOOK_KEYS = ("event", "command", "mode", "required", "timeout")


class Hook(NamedTuple):
    """A command to run on an event.

    A sync hook is waited for. A required hook that fails stops the session. `command` is what people see of
    `argv`.
    """

    event: str
    command: str
    argv: tuple[str, ...]
    mode: str = "sync"
    required: bool = False
    timeout: float = 30.0


def read_hooks(value: Any) -> list[Hook]:
    """Return the hooks in a setting's value. Raise ValueError for the first that is wrong."""
    if not isinstance(value, list) or not all(isinstance(table, dict) for table in value):
        raise ValueError("hooks must be a list of tables: [[hooks]]")
    return [_read_hook(table, number) for number, table in enumerate(value, 1)]


def _read_hook(table: dict[str, Any], number: int) -> Hook:
    unknown = set(table) - set(HOOK_KEYS)
    if unknown:
        raise ValueError(
            f"hook {number}: unknown key {sorted(unknown)[0]!r}; allowed: {', '.join(HOOK_KEYS)}"
        )
    command, argv = command_words(table.get("command"))
    hook = Hook(str(table.get("event")), command, argv)
    hook = hook._replace(
        mode=str(table.get("mode", hook.mode)),
        required=bool(table.get("required", False)),
        timeout=seconds(table.get("timeout", hook.timeout)),
    )
    if hook.event not in HOOK_EVENTS or hook.mode not in ("sync", "async") or not hook.command:
        raise ValueError(
            f"hook {number} needs a command, an event ({', '.join(HOOK_EVENTS)}) and a mode (sync or async)"
        )
    return hook
