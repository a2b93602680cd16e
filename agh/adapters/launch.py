"""An agent that is about to start, as `agh_prepare_launch` gets it. ACP is stdio: a place is an argv prefix.

Preparing only computes: a plugin changes the fields and does nothing else, because a launch may be prepared
just to see whether it is possible. Work that must be done in the place goes into `check`, `clear` and
`finish`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agh.adapters.agents import AgentRecord
from agh.errors import AghError

PROBE = "probe-"  # begins the session id of a trial, which belongs to no session


def nothing() -> None:
    """Do nothing: an agent on this machine needs no `check`, `clear` or `finish`."""


@dataclass(eq=False, repr=False)  # nobody compares or prints one; that spares 0.7 ms of every start
class Launch:
    """How an agent will be started; plugins change it."""

    agent: AgentRecord
    argv: list[str]  # the command to run on this machine
    environ: dict[str, str]  # its environment; values may be secret, so never put them into argv
    workspace: str  # the directory to run it in
    extra: tuple[str, ...] = ()  # the end of argv: arguments added to the agent's own
    place: str = ""  # the value of --on; empty means this machine
    places: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # [places.NAME] in the settings
    session_id: str = ""
    directories: tuple[str, ...] = ()  # others on this machine that the workspace needs
    # A plugin that knows the place fills in:
    elsewhere: bool = False  # the agent runs in the place, without this machine's files and terminals
    cwd: str = ""  # the workspace as the agent sees it
    preamble: bytes = b""  # sent before the first message
    started_notice: bytes = b""  # on stderr when the agent has a slot in the place; empty: it needs none
    queued_notice: bytes = b""  # on stderr if there is no slot yet
    idle_after: float | None = None  # seconds without a turn; then the session ends its agent
    heartbeat: float = 0.0  # seconds between spaces, which tell the other end that we are alive
    check: Callable[[], None] = nothing  # raises if the place is unavailable
    clear: Callable[[], None] = nothing  # ends what a launch left behind that was never finished
    finish: Callable[[], None] = nothing  # ends what may still run after the connection has closed
    # Returns why it ended, from the leash's exit report and its last output; None for the usual reason.
    explain: Callable[[Mapping[str, Any], str], AghError | None] = lambda ended, output: None
