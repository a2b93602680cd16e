"""A command of agh for another place, as `agh_prepare_far_command` gets it.

It runs under the agh that is installed there, on the home that this has. Preparing only computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class FarCommand:
    """How a command of agh is run in another place; the plugin that knows the place fills it in."""

    place: str  # a value of --on
    arguments: tuple[str, ...]  # what follows `agh`
    places: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # [places.NAME] in the settings
    # A plugin that knows the place fills in:
    argv: list[str] = field(default_factory=list)  # the command to run on this machine
    directory: str = ""  # of the place, on that machine; empty if it has none
    agent_place: str = ""  # where the agh there runs the agents of sessions that it keeps for us
    preamble: bytes = b""  # for its stdin, before what the command itself reads there
