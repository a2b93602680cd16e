"""How a workspace's settings join the user's own: they add to them or tighten them, never loosen. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agh.core.settings.values import AUTO, PERMISSION_MODES, UNATTENDED

if TYPE_CHECKING:
    from agh.core.rules import Rule

_LEAST = (
    "permissions.timeout",
    "questions.timeout",
    "session.limits.max_cost",
    "session.limits.max_turns",
    "session.limits.max_time",
    "session.limits.max_bytes",
    "session.limits.max_turn_bytes",
    "session.limits.max_windows",
    "session.supervision.inactivity_timeout",
    "session.supervision.tool_inactivity_timeout",
    "session.supervision.prompt_deadline",
    "session.queue_cap",
    "session.input_bytes",
)
_MOST = ("session.reserve_bytes",)
_ADDED = ("hooks", "permissions.rules", "redaction.patterns")


def join(name: str, own: Any, theirs: Any, read: Callable[[Any], Any]) -> Any:
    """Return the value of a setting, as written, that holds in a workspace which sets it too.

    `own` is the user's value or the default. For a limit, 0 means none.
    """
    if name == "permissions.mode":
        return stricter(own, theirs)
    if name == "permissions.timeout" and own == AUTO:
        return theirs if 0 < (read(theirs) or 0.0) < UNATTENDED else own
    if name in _LEAST:
        limits = [value for value in (own, theirs) if read(value)]
        return min(limits, key=read) if limits else own
    if name in _MOST:
        return max(own, theirs, key=read)
    if name in _ADDED:
        return [*own, *theirs]
    if name == "mcp_servers":
        names = {server["name"] for server in read(own)}
        return [*own, *(server for server in theirs if server.get("name") not in names)]
    if isinstance(own, dict) and isinstance(theirs, dict):
        return {**theirs, **own}
    return theirs


def stricter(mode: str, other: str) -> str:
    """Return the stricter of two permission modes."""
    return min(mode, other, key=PERMISSION_MODES.index)


def with_sources(rules: list[Rule], own: int, files: list[str]) -> list[Rule]:
    """Return the rules with the file that each comes from; the first ones, `own` of them, are the user's."""
    return [
        rule._replace(source=files[0])
        if index < own
        else rule._replace(source=files[-1], number=index - own + 1, tightens=True)
        for index, rule in enumerate(rules)
    ]
