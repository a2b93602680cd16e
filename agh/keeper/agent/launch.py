"""How an agent is started: which program, in what environment and place, and what the handshake says."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from agh import __version__
from agh.adapters import registry
from agh.adapters.agents import HANDS, AgentRecord
from agh.adapters.calls import HookRun
from agh.adapters.launch import Launch
from agh.errors import AgentFailed, AgentNotInstalled, AghError, PlaceUnknown
from agh.keeper.leash.ahead import COOKIE_VARIABLE

PROTOCOL = 1
WORK = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}  # by the hand that does it
CAPABILITIES = {
    "elicitation": {"form": {}, "url": {}},
    "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
    "plan": {},
}


def client_info(elsewhere: bool = False, hands: Sequence[str] = HANDS) -> dict[str, Any]:
    """Return what agh says about itself to an agent whose record has these hands.

    It offers no files and no terminals to an agent in another place, where they are others.
    """
    here = {} if elsewhere else {**{hand: WORK[hand] for hand in hands}, "auth": {"terminal": True}}
    return {
        "protocolVersion": PROTOCOL,
        "clientCapabilities": here | CAPABILITIES,
        "clientInfo": {"name": "agh", "version": __version__},
    }


def agent_record(name: str, command: list[str] | None, workspace: str) -> AgentRecord:
    """Return the record of a session's agent; a bare command gets a minimal one."""
    if command:
        return AgentRecord(name, tuple(command), source="--command")
    return registry.agent(name, workspace)


def read_env_file(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables of the user's file of keys; raise if there is one that cannot be used."""
    if not settings["env.file"]:
        return {}
    from agh.adapters import env_file  # few have one

    return env_file.read(settings["env.file"])


def not_installed(record: AgentRecord) -> AgentNotInstalled:
    """Return the error for an agent whose program is missing, with how to install it."""
    from agh.keeper.agent.advice import program_missing

    return program_missing(record, record.argv[0], search=os.environ.get("PATH", ""))


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
    """Return how the agent would be started, here or in the place; raise if it cannot be. Touches nothing."""
    argv = record.command(record.env.get("PATH") or os.environ.get("PATH"))
    if argv is None:
        if record.source != "--command" and not place:
            raise not_installed(record)
        argv = list(record.argv)
    variables = {**read_env_file(settings), **os.environ}
    marks = {COOKIE_VARIABLE: cookie, "AGH_SESSION_ID": session_id}
    environ = {**record.environment(variables), **{key: value for key, value in marks.items() if value}}
    launch = Launch(
        record,
        [*argv, *extra],
        environ,
        workspace,
        extra=tuple(extra),
        place=place or "",
        places=settings["places"],
        session_id=session_id,
        directories=tuple(directories),
        cwd=workspace,
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


def capabilities_in(answer: dict[str, Any]) -> dict[str, Any]:
    """Return what an agent can do, from its answer to `initialize`; ignore groups that are not objects."""
    caps = answer.get("agentCapabilities")
    if not isinstance(caps, dict):
        return {}
    groups = [key for key in caps if key.endswith("Capabilities") and not isinstance(caps[key], dict)]
    return {key: value for key, value in caps.items() if key not in groups}


def version_in(answer: dict[str, Any]) -> str | None:
    """Return the version that an agent claims in its answer to `initialize`; None if it claims none."""
    info = answer.get("agentInfo")
    version = info.get("version") if isinstance(info, dict) else None
    return version[:200] if isinstance(version, str) and version else None


def auth_methods_in(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the ways to log in, from an agent's answer to `initialize`."""
    methods = answer.get("authMethods")
    methods = methods if isinstance(methods, list) else []
    return [method for method in methods if isinstance(method, dict) and isinstance(method.get("id"), str)]
