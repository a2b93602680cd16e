"""Starting an agent: which program, in what environment, in which place, and the handshake."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from agh import __version__
from agh.adapters import registry
from agh.adapters.agents import AgentRecord
from agh.adapters.calls import HookRun
from agh.adapters.launch import Launch
from agh.core.events import timestamp
from agh.errors import AgentFailed, AgentNotInstalled, AghError, PlaceGone, PlaceUnknown
from agh.keeper.agent.connection import Agent
from agh.keeper.leash import orphans
from agh.keeper.session import Live

PROTOCOL = 1
HANDS = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}


def client_info(elsewhere: bool = False) -> dict[str, Any]:
    """What agh says of itself. An agent elsewhere works with its own hands: our files are not its files."""
    return {
        "protocolVersion": PROTOCOL,
        "clientCapabilities": {} if elsewhere else HANDS,
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


def prepare(
    record: AgentRecord,
    workspace: str,
    settings: Mapping[str, Any],
    *,
    extra: Sequence[str] = (),
    place: str | None = None,
    session_id: str = "",
    cookie: str = "",
    directories: Sequence[str] = (),
) -> Launch:
    """How the agent would be started. Touches nothing; raises when it cannot be, here or in the place."""
    argv = record.command(record.env.get("PATH") or os.environ.get("PATH"))
    if argv is None:
        if record.source != "--command" and not place:
            raise not_installed(record)
        argv = list(record.argv)
    marks = {orphans.COOKIE_VARIABLE: cookie, "AGH_SESSION_ID": session_id}
    environ = {**record.environment(os.environ), **{key: value for key, value in marks.items() if value}}
    launch = Launch(
        record,
        [*argv, *extra],
        environ,
        workspace,
        extra=tuple(extra),
        place=place or "",
        named=settings["places"],
        session_id=session_id,
        directories=tuple(directories),
    )

    def stop_on_failure(run: HookRun) -> None:
        """Stop the launch: without what the plugin meant to change, the agent must not run."""
        if isinstance(run.error, AghError):
            raise run.error
        if run.error is not None:
            why = f"plugin {run.plugin}: {type(run.error).__name__}: {run.error}"
            raise AgentFailed(record.name, why) from run.error

    registry.call_hook("agh_prepare_launch", stop_on_failure, launch=launch)
    if launch.place and not launch.elsewhere:
        raise PlaceUnknown(launch.place)
    return launch


def begin_agent(live: Live, extra_argv: Sequence[str] = ()) -> None:
    """Start the agent below its leash. The launch is on disk before the process exists."""
    stored = live.meta
    record = live.record_of_agent
    mark = orphans.new_launch()
    tree = stored.get("worktree") or {}
    launch = prepare(
        record,
        stored["workspace_path"],
        live.settings,
        extra=extra_argv,
        place=stored.get("place"),
        session_id=live.session_id,
        cookie=mark.cookie,
        directories=[tree["repository"]] if tree.get("repository") else [],
    )
    live.environ = launch.environ
    live.update(
        state="starting",
        stop_reason=None,
        stop_detail=None,
        failure=None,
        attach=None,
        launch=mark._asdict(),
        cwd=launch.cwd if launch.elsewhere else None,
        keeper={"pid": os.getpid(), "started_at": timestamp()},
    )
    live.agent = Agent(live.loop, launch)


def shake_hands(live: Live) -> None:
    """What an agent that was begun says of itself."""
    from agh.keeper.agent.incoming import take_frames

    agent = live.agent
    assert agent is not None
    agent.on_frames = lambda frames: take_frames(live, frames)
    agent.on_end = lambda: _ended(live, agent.death())
    said = agent.call("initialize", client_info(live.is_elsewhere), live.settings["timeouts.initialize"])
    said = said if isinstance(said, dict) else {}
    version = said.get("protocolVersion")
    if version != PROTOCOL:
        raise AgentFailed(agent.name, f"it speaks protocol version {version!r}; agh speaks 1")
    live.meta["acp_caps"] = capabilities_in(said)
    live.meta["auth_methods"] = auth_methods_in(said)


def capabilities_in(answer: dict[str, Any]) -> dict[str, Any]:
    """What an agent can do, from its answer to `initialize`; what is not an object counts as nothing."""
    caps = answer.get("agentCapabilities")
    if not isinstance(caps, dict):
        return {}
    groups = [key for key in caps if key.endswith("Capabilities") and not isinstance(caps[key], dict)]
    return {key: value for key, value in caps.items() if key not in groups}


def auth_methods_in(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """The ways to log in, from an agent's answer to `initialize`."""
    methods = answer.get("authMethods")
    methods = methods if isinstance(methods, list) else []
    return [method for method in methods if isinstance(method, dict) and isinstance(method.get("id"), str)]


def _ended(live: Live, death: AghError) -> None:
    """A wire that broke says nothing against the agent: the session can be resumed in the same place."""
    if isinstance(death, PlaceGone):
        live.fail("error", "transport_failure", death.message)
    else:
        live.fail("agent_crashed", "process_exit", death.message)


def restart_agent(live: Live, extra_argv: list[str]) -> None:
    """End the agent and start it again with more arguments; its first end is not the session's."""
    if live.agent is not None:
        live.agent.on_end = lambda: None
        live.agent.process.end(eof=1.0, term=1.0)
    begin_agent(live, extra_argv)
    shake_hands(live)
