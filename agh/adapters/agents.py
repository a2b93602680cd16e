"""What agh knows of an agent: how to start it, and its ways. Plain data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agh.errors import Usage


@dataclass(frozen=True)
class AgentRecord:
    """An agent that can be started. `argv[0]` is looked up on PATH."""

    name: str
    argv: tuple[str, ...]
    title: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    login: str = ""  # the command that logs in
    install: str = ""  # the command that installs it
    source: str = "built-in"

    def path(self, search: str | None = None) -> str | None:
        """Where its program is; None when it is not installed."""
        import shutil

        return shutil.which(self.argv[0], path=search)


def record(given: Mapping[str, Any], source: str) -> AgentRecord:
    """An agent from a plugin or a file; what does not fit is a usage error that names the source."""
    known = set(AgentRecord.__dataclass_fields__) - {"source"}
    unknown = set(given) - known
    if unknown:
        raise Usage(f"{source}: unknown key {sorted(unknown)[0]!r}; known are {', '.join(sorted(known))}")
    argv = given.get("argv")
    if not isinstance(given.get("name"), str) or not isinstance(argv, list | tuple) or not argv:
        raise Usage(f"{source}: an agent needs a name and an argv")
    return AgentRecord(**{**given, "argv": tuple(map(str, argv)), "source": source})


def environment(one: AgentRecord, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """The agent's environment: the user's own, and what the record adds."""
    return {**(os.environ if base is None else base), **one.env}
