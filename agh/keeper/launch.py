"""Starting the agent of a session: which program, in what environment, and the handshake."""

from __future__ import annotations

import os

from agh import __version__
from agh.adapters import registry
from agh.adapters.agents import AgentRecord
from agh.core.events import timestamp
from agh.errors import AgentFailed, AgentNotInstalled
from agh.keeper import orphans
from agh.keeper.agent import Agent
from agh.keeper.live import Live
from agh.keeper.requests import take_frames

CLIENT = {
    "protocolVersion": 1,
    "clientCapabilities": {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True},
    "clientInfo": {"name": "agh", "version": __version__},
}


def agent_record(name: str, command: list[str] | None, workspace: str) -> AgentRecord:
    """The record of a session's agent; a bare command is an agent without one."""
    if command:
        return AgentRecord(name, tuple(command), source="--command")
    return registry.agent(name, workspace)


def not_installed(record: AgentRecord) -> AgentNotInstalled:
    hint = f"install it: {record.install}" if record.install else None
    return AgentNotInstalled(record.name, f"{record.argv[0]} is not on PATH", hint=hint)


def start_agent(live: Live, extra_argv: list[str] | None = None) -> None:
    """Start the agent below its leash and shake hands. The launch is on disk before the process exists."""
    stored = live.meta
    record = live.record_of_agent
    argv = record.command(live.environ.get("PATH") or os.environ.get("PATH"))
    if argv is None:
        if record.source != "--command":
            raise not_installed(record)
        argv = list(record.argv)
    launch = orphans.new_launch()
    live.environ = {
        **record.environment(os.environ),
        orphans.COOKIE_VARIABLE: launch.cookie,
        "AGH_SESSION_ID": live.session_id,
    }
    live.update(
        state="starting",
        stop_reason=None,
        stop_detail=None,
        failure=None,
        attach=None,
        launch=launch._asdict(),
        keeper={"pid": os.getpid(), "started_at": timestamp()},
    )
    agent = Agent(
        live.loop, record.name, [*argv, *(extra_argv or [])], live.environ, stored["workspace_path"]
    )
    live.agent = agent
    agent.on_frames = lambda frames: take_frames(live, frames)
    agent.on_end = lambda: live.fail("agent_crashed", "process_exit", agent.death().message)
    said = agent.call("initialize", CLIENT, live.settings["timeouts.initialize"])
    said = said if isinstance(said, dict) else {}
    version = said.get("protocolVersion")
    if version != CLIENT["protocolVersion"]:
        raise AgentFailed(record.name, f"it speaks protocol version {version!r}; agh speaks 1")
    stored["acp_caps"] = said.get("agentCapabilities") or {}
    stored["auth_methods"] = said.get("authMethods") or []


def restart_agent(live: Live, extra_argv: list[str]) -> None:
    """End the agent and start it again with more arguments; its first end is not the session's."""
    if live.agent is not None:
        live.agent.on_end = lambda: None
        live.agent.process.end(eof=1.0, term=1.0)
    start_agent(live, extra_argv)
