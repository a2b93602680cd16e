"""A council from its profile's file to its end, as a command sees it."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Iterator
from types import FrameType
from typing import Any

from agh.adapters import registry
from agh.console import terminal
from agh.console.output import talk
from agh.errors import AghError
from agh.keeper import client
from agh.store.follow import follow
from agh.store.reader import EVERYTHING
from agh_council.errors import CouncilPaused, CouncilStopped, GateWaits, ProfileInvalid
from agh_council.profile import read_profile


def load_profile(path: str, workspace: str) -> dict[str, Any]:
    """The tables of a profile that is sound, and whose agents are known."""
    import tomllib

    try:
        with open(path, "rb") as file:
            given = tomllib.load(file)
        profile = read_profile(given)
        for seat in profile.seats:
            if seat.command and not shlex.split(seat.command):
                raise ValueError(f"{seat.id}: the command is empty")
            if seat.agent:
                registry.agent(seat.agent, workspace)
    except OSError as error:
        raise ProfileInvalid(path, error.strerror, hint="name a profile's file") from None
    except ValueError as error:
        raise ProfileInvalid(path, error) from None
    return given


def follow_to_the_end(directory: str, after: int) -> Iterator[str]:
    """What happens in a council after an event, in a line each, until its keeper has ended."""
    with _Presses(directory):
        for batch in follow([(directory, after)], EVERYTHING):
            for row in batch.rows:
                content = row.parsed()
                if row.type == "agent_message":
                    yield terminal.one_line(f"{content.get('agent_id')}: {content.get('text')}", 200)
                elif row.type == "system" and _is_shown(content):
                    yield terminal.one_line(f"{content['action']}: {content.get('title')}", 200)


def _is_shown(content: dict[str, Any]) -> bool:
    action, given = content.get("action"), content.get("council") or {}
    return action in _SHOWN or (action == "delegation" and given.get("status") in ("failed", "unknown"))


_SHOWN = ("opened", "limits", "member", "round", "gate", "steer", "constraint", "permission", "memo")


def how_it_ended(view: dict[str, Any]) -> AghError | None:
    """None for a council that came to its memo; else what a script must know."""
    if view["phase"] == "completed":
        return None
    if view["gate"]:
        return GateWaits(view["session_id"], view["gate"]["prompt"])
    why = view["stop_detail"] or view["stop_reason"]
    if view["phase"] == "paused":
        return CouncilPaused(view["session_id"], why)
    return CouncilStopped(view["session_id"], why)


class _Presses:
    """Ctrl-C while a council runs: the first pauses it, the second leaves it to itself."""

    def __init__(self, directory: str) -> None:
        self.directory, self.count = directory, 0

    def __enter__(self) -> None:
        self._before = signal.signal(signal.SIGINT, self._pressed)

    def __exit__(self, *exc: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _pressed(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.count > 1:
            talk("the council goes on without you")
            raise KeyboardInterrupt
        talk("pausing the council; press Ctrl-C again to leave it running")
        try:
            client.call(self.directory, "stop", reason="paused", limit=0.05)
        except AghError:
            pass  # it was told; its end is about to be seen
