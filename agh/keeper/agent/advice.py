"""The command to run next when an agent has failed."""

from __future__ import annotations

from shlex import join, quote

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
