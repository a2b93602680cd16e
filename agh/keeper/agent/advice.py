"""The command to run next when an agent has failed, and the ways in which it can be logged in to."""

from __future__ import annotations

from collections.abc import Mapping
from shlex import join, quote
from typing import Any

from agh.adapters.agents import AgentRecord
from agh.core.acp.reasons import says_auth, says_not_installed


def hint_for(record: AgentRecord, *causes: str) -> str:
    """Return the command that helps: the one that installs the agent, logs in, or tries it out."""
    cause = " ".join(causes)
    if says_auth(cause):
        return login_hint(record)
    if says_not_installed(cause) and record.install:
        return f"install it: {record.install}"
    return doctor_hint(record)


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
