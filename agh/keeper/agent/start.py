"""Starting a live session's agent below its leash, and the handshake with it.

A place such as a cluster has room for few agents at a time. An agent that waits there for its slot is not
late, however long that takes; whoever waits for the start hears once that there is none yet.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from agh.adapters.launch import Launch
from agh.core.acp.frames import Frame
from agh.core.events import timestamp
from agh.errors import AgentFailed, PlaceGone
from agh.keeper.agent.connection import Agent, RpcError
from agh.keeper.agent.launch import (
    PROTOCOL,
    auth_methods_in,
    capabilities_in,
    client_info,
    prepare,
    version_in,
)
from agh.keeper.leash import orphans
from agh.keeper.leash.ahead import waiting_leash
from agh.keeper.loop import Loop
from agh.keeper.session import AgentSide, Live

PATIENCE = 5.0  # seconds; an agent that has no slot by then waits for it, though its place has not said so
TAIL = 1000  # bytes of stderr that may hold the beginning of a notice


class Slot:
    """Notes whether the agent still waits for its slot, by what its place prints on stderr."""

    def __init__(self, loop: Loop, launch: Launch, agent: AgentSide, on_queued: Callable[[], None]) -> None:
        self._agent = agent
        agent.waits_for_slot = True
        self._launch, self._on_queued, self._tail = launch, on_queued, b""
        self._timer = loop.later(PATIENCE, self._queue)

    def take(self, data: bytes) -> None:
        """Look for a notice in what came on stderr."""
        if not self._agent.waits_for_slot:
            return
        text = self._tail + data
        if self._launch.started_notice in text:
            self._agent.waits_for_slot = False
        elif self._launch.queued_notice and self._launch.queued_notice in text:
            self._queue()
        self._tail = text[-TAIL:]

    def _queue(self) -> None:
        self._timer.cancel()
        callback, self._on_queued = self._on_queued, lambda: None
        if self._agent.waits_for_slot:
            callback()


def start_agent(live: Live, extra_argv: Sequence[str] = ()) -> None:
    """Start the agent below its leash. The launch is on disk before the process exists."""
    worktree = live.meta.get("worktree") or {}
    mark = orphans.new_launch(live.session, waiting_leash())
    launch = prepare(
        live.agent.record,
        live.meta["workspace_path"],
        live.settings,
        extra=extra_argv,
        place=live.meta.get("place"),
        session_id=live.session_id,
        cookie=mark.cookie,
        directories=[worktree["repository"]] if worktree.get("repository") else [],
    )
    live.agent.environ = launch.environ
    live.update(
        state="starting",
        stop_reason=None,
        stop_detail=None,
        failure=None,
        attach=None,
        launch={**mark._asdict(), "path": launch.environ.get("PATH")},
        cwd=launch.cwd if launch.elsewhere else None,
        keeper={"pid": os.getpid(), "started_at": timestamp()},
    )
    if launch.idle_after is not None:
        live.settings = {**live.settings, "session.idle_after": launch.idle_after}
    on_stderr = _watch_stderr(live, launch)
    live.agent.connection = Agent(
        live.loop,
        launch,
        on_frames=lambda agent, frames: _take(live, frames),
        on_end=lambda agent: _fail(live, agent),
        is_waiting=lambda: live.agent.is_waiting or live.agent.waits_for_slot,
        on_stderr=on_stderr,
    )


def _watch_stderr(live: Live, launch: Launch) -> Callable[[bytes], None] | None:
    """Return what reads the agent's stderr as it comes, if anything does."""
    readers: list[Callable[[bytes], None]] = []
    if live.agent.record.error_log:
        from agh.keeper.turns.error_log import ErrorLog  # few agents have one

        readers.append(ErrorLog(live).take)
    if launch.started_notice:
        readers.append(Slot(live.loop, launch, live.agent, lambda: _note_queued(live)).take)

    def read(data: bytes) -> None:
        for reader in readers:
            reader(data)

    return read if readers else None


def _note_queued(live: Live) -> None:
    """Let lists, and the command that waits for the start, know that there is no slot for the agent yet."""
    from agh.keeper.verbs import describe

    live.show_activity()
    if live.on_queued is not None:
        live.on_queued(describe(live))


def initialize_agent(live: Live) -> None:
    """Agree on the protocol with an agent that was started, and note its capabilities."""
    agent = live.agent.connected
    info = client_info(live.is_elsewhere, live.agent.record.hands)
    try:
        answer = agent.call("initialize", info, live.settings["timeouts.initialize"])
    except RpcError as error:
        raise AgentFailed(agent.name, error.message, hint=error.hint, **error.details) from None
    live.agent.waits_for_slot = False
    answer = answer if isinstance(answer, dict) else {}
    version = answer.get("protocolVersion")
    if version != PROTOCOL:
        text = f"it speaks protocol version {version!r}; agh speaks version 1"
        raise AgentFailed(agent.name, text, failure_kind="protocol_failure")
    live.meta["agent_version"] = version_in(answer)
    live.meta["agent_pin"] = dict(live.agent.record.pin) or None
    live.meta["acp_caps"] = capabilities_in(answer)
    live.meta["auth_methods"] = auth_methods_in(answer)


def restart_agent(live: Live, extra_argv: list[str]) -> None:
    """Stop the agent and start it again with more arguments; its first end does not end the session."""
    if live.agent.connection is not None:
        live.agent.connection.stop_quietly(eof=1.0, term=1.0)
    start_agent(live, extra_argv)
    initialize_agent(live)


def _take(live: Live, frames: list[Frame]) -> None:
    """Take what the agent sent; the first of it comes long after its start."""
    from agh.keeper.agent.incoming import take_frames

    take_frames(live, frames)


def _fail(live: Live, agent: Agent) -> None:
    """End the session with its agent. A broken wire is not the agent's fault: the session can be resumed."""
    if live.is_ending:  # so its agent ends as it should; to look for a cause would take 4 ms
        return
    death = agent.death()
    if isinstance(death, PlaceGone):
        live.fail("error", "transport_failure", death.message)
    else:
        live.fail("agent_crashed", "process_exit", death.message)
