"""What to do when an agent has failed, and the ways in which it can be logged in to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from shlex import join, quote
from typing import Any

from agh.adapters.agents import AgentRecord
from agh.adapters.launch import Launch
from agh.core.acp.reasons import (
    says_auth,
    says_no_model,
    says_no_network,
    says_no_package,
    says_not_installed,
    says_old_node,
)
from agh.errors import AgentNotInstalled


def hint_for(record: AgentRecord, cause: str) -> str:
    """Return what helps: the command that installs the agent, logs in, or tries it out."""
    if says_auth(cause):
        return login_hint(record)
    if says_no_package(cause):
        return package_hint(record)
    if says_not_installed(cause) and record.install:
        return f"install it: {record.install}"
    if says_old_node(cause):
        return f"install a newer Node.js (node --version shows yours), then: {doctor_hint(record)}"
    if says_no_network(cause):
        return f"check the network, then: {doctor_hint(record)}"
    if says_no_model(cause):
        return "choose another model with --model, or in the agent's own settings"
    return doctor_hint(record)


def package_hint(record: AgentRecord) -> str:
    """Return what helps if there is no package of that name."""
    if record.source == "--command":
        return "correct the package in --command; agh agent search lists agents"
    return f"see which package it has now: agh agent search {record.name}"


def slow_hint(record: AgentRecord, method: str) -> str:
    """Return what helps if an agent does not answer: it may hang, or only be slow."""
    setting = {"initialize": "initialize", "session/new": "new"}.get(method, "load")
    return f"{doctor_hint(record)}; if it is only slow: agh config set timeouts.{setting} 5m"


def start_failure(launch: Launch, error: str) -> AgentNotInstalled:
    """Return why an agent's program could not be executed; `error` is the system's word for it."""
    record, program = launch.agent, launch.argv[0]
    search = launch.workspace if "/" in program else launch.environ.get("PATH", "")
    return program_missing(record, program, search=search, error=error)


def program_missing(record: AgentRecord, program: str, *, search: str, error: str = "") -> AgentNotInstalled:
    """Return why a program cannot be executed: it is not in any folder of `search`, or not a program."""
    install = f"install it: {record.install}" if record.install else None
    paths = (os.path.join(folder, program) for folder in search.split(os.pathsep))
    path = next((path for path in paths if os.path.exists(path)), None)
    if path is None:
        why = f"there is no file {program}" if "/" in program else f"{program} is not on PATH"
        if record.source == "--command":
            install = "correct --command, or choose another agent: agh agent list"
    elif not os.access(path, os.X_OK):
        why, install = f"{program} is not executable", f"chmod +x {quote(os.path.normpath(path))}"
    elif (interpreter := _read_interpreter(path)) and not os.path.exists(interpreter):
        why = f"{program} needs {interpreter}, which does not exist"
    else:
        why = f"{program}: {error}"
    return AgentNotInstalled(record.name, why, hint=install)


def _read_interpreter(path: str) -> str:
    """Return the interpreter that a script names in its first line."""
    try:
        with open(path, "rb") as file:
            line = file.readline(300)
    except OSError:
        return ""
    words = line.removeprefix(b"#!").split() if line.startswith(b"#!") else []
    return words[0].decode(errors="replace") if words else ""


def login_hint(record: AgentRecord) -> str:
    """Return the command that logs in to an agent."""
    if record.source == "--command":
        return "log in with the agent's own command, then try again"
    return f"log in: agh agent login {record.name}"


def doctor_hint(record: AgentRecord) -> str:
    """Return the command that tries an agent out."""
    if record.source == "--command":
        return f"agh agent doctor --command {quote(join(record.argv))}"
    return f"agh agent doctor {record.name}"


def kind_of(method: Mapping[str, Any]) -> str:
    """Return how a method logs in: agent, terminal or env_var."""
    meta = method.get("_meta")
    if isinstance(meta, dict) and isinstance(meta.get("terminal-auth"), dict):
        return "terminal"
    return str(method.get("type") or "agent")


def describe_method(method: Mapping[str, Any]) -> str:
    """Return a method as one line: its id, how it logs in, and its name."""
    name = method.get("name")
    return f"{method['id']} ({kind_of(method)})" + (f": {name}" if isinstance(name, str) and name else "")
