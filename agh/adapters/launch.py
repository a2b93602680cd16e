"""An agent about to be started, as `agh_prepare_launch` gets it. ACP is stdio: a place is an argv prefix.

To prepare is to compute: a plugin changes the fields and touches nothing, for a launch may be prepared
only to see whether it could be. What has to be done in the place is left in `clear`, `check`, `finish`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agh.adapters.agents import AgentRecord
from agh.errors import AghError


def nothing() -> None:
    """What there is to do for an agent that runs here."""


@dataclass
class Launch:
    agent: AgentRecord
    argv: list[str]  # what is started on this machine
    environ: dict[str, str]  # with this environment: its values may be secret, so they never go into argv
    workspace: str  # in this directory
    extra: tuple[str, ...] = ()  # the end of argv: what is added to the agent's own
    place: str = ""  # what --on said; empty is here
    named: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # [places.NAME] of the settings
    session_id: str = ""
    directories: tuple[str, ...] = ()  # of this machine, which the workspace does not work without
    # What a plugin that knows the place fills in:
    elsewhere: bool = False  # it takes the agent there; files and terminals of this machine are not offered
    cwd: str = ""  # the workspace as the agent sees it
    preamble: bytes = b""  # goes down the wire ahead of the first message
    heartbeat: float = 0.0  # every so many seconds a space goes down the wire, so that its end can tell
    check: Callable[[], None] = nothing  # raises when the place is not there
    clear: Callable[[], None] = nothing  # nobody saw how the last launch ended: ends what it left there
    finish: Callable[[], None] = nothing  # the wire has ended: ends what may go on behind it
    # Why it ended, from its exit (as the leash tells it) and its last words; None is the usual reason.
    explain: Callable[[Mapping[str, Any], str], AghError | None] = lambda ended, said: None

    def __post_init__(self) -> None:
        self.cwd = self.cwd or self.workspace
