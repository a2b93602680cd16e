"""Trying an agent out: start it in an empty directory, shake hands, open a session, look, and end it."""

from __future__ import annotations

import os
import shlex
import tempfile
import time
from collections.abc import Mapping
from typing import Any

from agh import config
from agh.adapters import registry
from agh.adapters.agents import AgentRecord
from agh.adapters.launch import PROBE, Launch
from agh.adapters.restore import METHOD_NOT_FOUND, has_capability, with_forced
from agh.core.acp.frames import Frame, Request, Response, only_dicts
from agh.core.acp.reasons import is_auth_failure
from agh.errors import AgentNeedsLogin, AghError
from agh.keeper.agent.advice import describe_method, login_hint
from agh.keeper.agent.connection import Agent, RpcError
from agh.keeper.agent.launch import agent_record, auth_methods_in, capabilities_in, client_info, prepare
from agh.keeper.agent.options import offered
from agh.keeper.leash import orphans
from agh.keeper.loop import Loop


def probe(name: str | None, command: list[str] | None = None, place: str | None = None) -> dict[str, Any]:
    """Return what an agent says about itself. Raises if it is missing, does not start, or wants a log-in.

    In another place it is tried in the directory that a session started here would have there.
    """
    settings = config.load(os.getcwd())
    if command:
        record = agent_record(name or os.path.basename(command[0]), command, "")
    else:
        record = registry.default_agent(name or settings["agent"], os.getcwd())
    with tempfile.TemporaryDirectory(prefix="agh-probe-") as folder:
        where = os.getcwd() if place else folder
        cookie = orphans.new_cookie()
        launch = prepare(
            record,
            where,
            settings,
            place=place,
            cookie=cookie,
            session_id=f"{PROBE}{cookie}" if place else "",
        )
        launch.check()
        agent = Agent(Loop(), launch, refuse_requests)
        try:
            return _examine(agent, launch, settings)
        except AghError as error:
            if error.hint.startswith("agh agent doctor"):  # which is this
                where = f" on {launch.place}" if launch.elsewhere else ""
                error.hint = f"run it yourself{where}: {shlex.join(record.argv)}"
            raise
        finally:
            agent.process.end(eof=1.0, term=1.0)


def _examine(agent: Agent, launch: Launch, settings: dict[str, Any]) -> dict[str, Any]:
    record, folder = launch.agent, launch.cwd
    began = time.monotonic()
    info = client_info(launch.elsewhere, record.hands)
    greeting = agent.call("initialize", info, settings["timeouts.initialize"])
    greeted = time.monotonic()
    greeting = greeting if isinstance(greeting, dict) else {}
    caps = capabilities_in(greeting)
    methods = [describe_method(method) for method in auth_methods_in(greeting)]
    try:
        answer = agent.call("session/new", {"cwd": folder, "mcpServers": []}, settings["timeouts.new"])
    except RpcError as error:
        if is_auth_failure(error.error):
            hint = login_hint(record)
            raise AgentNeedsLogin(record.name, error.message, hint=hint, methods=methods) from None
        raise
    opened = time.monotonic()
    status = _auth_status(agent, caps, settings["timeouts.new"])
    if status.get("state") == "unauthenticated":
        why = "it opens a session, but says that nobody is logged in"
        raise AgentNeedsLogin(record.name, why, hint=login_hint(record), methods=methods)
    return {
        "name": record.name,
        "state": "works",
        "place": launch.place or None,
        "directory": launch.cwd if launch.elsewhere else None,
        "command": [*record.argv] if launch.elsewhere else launch.argv,
        "version": _version(greeting),
        "protocol": greeting.get("protocolVersion"),
        "capabilities": caps,
        "login": _describe_status(status) or _login(auth_methods_in(greeting), launch.environ),
        "auth_methods": methods,
        "restore_strategy": first_strategy(caps, record),
        "choices": {
            choice.name: choice.values for choice in offered(answer if isinstance(answer, dict) else {})
        },
        "initialize_ms": round((greeted - began) * 1000),
        "session_new_ms": round((opened - greeted) * 1000),
    }


def _auth_status(agent: Agent, caps: Mapping[str, Any], limit: float) -> dict[str, Any]:
    """Return what an agent says about its login; nothing if it has no word for it."""
    auth = caps.get("auth")
    if not isinstance(auth, dict) or not isinstance(auth.get("status"), dict):
        return {}
    try:
        answer = agent.call("auth/status", {}, limit)
    except RpcError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _describe_status(status: Mapping[str, Any]) -> str:
    """Say who is logged in, if the agent says that."""
    if status.get("state") == "not_required":
        return "no login is needed"
    if status.get("state") != "authenticated":
        return ""
    accounts = only_dicts(status.get("accounts"))
    active = [account for account in accounts if account.get("active")] or accounts
    labels = [account["label"] for account in active if isinstance(account.get("label"), str)]
    return f"logged in: {', '.join(labels)}" if labels else "logged in"


def _login(methods: list[dict[str, Any]], environ: Mapping[str, str]) -> str:
    """Say how an agent that has opened a session is logged in, as far as it says so."""
    keys = [
        variable["name"]
        for method in methods
        for variable in only_dicts(method.get("vars"))
        if isinstance(variable.get("name"), str) and environ.get(variable["name"])
    ]
    if keys:
        return f"logged in with {keys[0]}"
    return "logged in" if methods else "the agent offers no login"


def refuse_requests(agent: Agent, frames: list[Frame]) -> None:
    """Deliver the answers to our own requests, and refuse all of the agent's."""
    for frame in frames:
        if isinstance(frame, Response):
            agent.deliver(frame)
        elif isinstance(frame, Request):
            agent.refuse(frame.id, METHOD_NOT_FOUND, "this is only a trial")


def first_strategy(caps: dict[str, Any], record: AgentRecord) -> str:
    """Return the strategy that a session of this agent would be restored with first."""
    caps = with_forced(caps, record.restore_force)
    possible = {
        "native_resume": has_capability(caps, "resume"),
        "native_load": bool(caps.get("loadSession")),
        "cli_resume": bool(record.resume_argv),
        "inject_history": True,
    }
    names = sorted(possible, key=lambda name: name not in record.restore_force)
    return next(name for name in names if possible[name] and name not in record.restore_skip)


def _version(greeting: dict[str, Any]) -> str | None:
    info = greeting.get("agentInfo")
    info = info if isinstance(info, dict) else {}
    return " ".join(str(info[key]) for key in ("name", "version") if info.get(key)) or None
