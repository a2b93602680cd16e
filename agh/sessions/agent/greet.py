"""Starting an agent outside any session, and the handshake with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from agh.adapters.agents import AgentRecord
from agh.adapters.launch import Launch
from agh.core.acp.frames import Frame
from agh.core.named_tuple import NamedTuple
from agh.keeper.agent.connection import Agent
from agh.keeper.agent.launch import auth_methods_in, capabilities_in, client_info, prepare
from agh.keeper.leash import orphans
from agh.keeper.loop import Loop
from agh.sessions.agent.probe import refuse_requests

Method = dict[str, Any]


class Greeted(NamedTuple):
    """An agent that has been started, and what it said at the handshake."""

    agent: Agent
    loop: Loop
    launch: Launch
    methods: list[Method]
    capabilities: dict[str, Any]
    settings: dict[str, Any]


@contextmanager
def greet(
    record: AgentRecord,
    folder: str,
    settings: dict[str, Any],
    on_frames: Callable[[Agent, list[Frame]], None] = refuse_requests,
) -> Iterator[Greeted]:
    """Start an agent in a directory and shake hands; end it at the end of the block."""
    launch = prepare(record, folder, settings, cookie=orphans.new_cookie())
    launch.check()
    loop = Loop()
    agent = Agent(loop, launch, on_frames)
    try:
        info = client_info(launch.elsewhere, record.hands)
        answer = agent.call("initialize", info, settings["timeouts.initialize"])
        answer = answer if isinstance(answer, dict) else {}
        yield Greeted(agent, loop, launch, auth_methods_in(answer), capabilities_in(answer), settings)
    finally:
        agent.process.end(eof=1.0, term=1.0)
