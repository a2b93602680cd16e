"""`/agent NAME`: the session goes to another agent without leaving the chat.

Promises: nothing is stopped unless the other agent is known and the session is idle.
"""

from __future__ import annotations

from contextlib import redirect_stderr
from io import StringIO

from agh.console import terminal
from agh.errors import AgentNotInstalled, Usage
from agh.home import Session
from agh.keeper import client
from agh.store import meta


def installed_agents() -> list[str]:
    """List the agents that are installed. Warnings about plugins would spoil the screen."""
    from agh.adapters import registry

    with redirect_stderr(StringIO()):
        return [agent.name for agent in registry.agents().values() if agent.state() == "installed"]


def check_handover(session: Session, name: str) -> str:
    """Refuse what cannot be handed over to this agent; return what happens and what is lost."""
    metadata = meta.read(session)
    label, current = metadata.get("name") or session.id, metadata["agent_name"]
    if name == current:
        problem = f"{name} is already the agent of this session"
        raise Usage(problem, hint="press Tab after /agent to list the others")
    if metadata.get("kind"):
        raise Usage(
            f"{label} has several agents, so you cannot hand it over to another one",
            hint="/quit, then: agh new --agent NAME",
        )
    _check_agent(session, name)
    _check_idle(session)
    return terminal.clean(
        f"handing over from {current} to {name}: {current} stops, with everything it started. "
        f"{name} gets the conversation with your next prompt; anything else that {current} remembers "
        f"is lost, and so are the model and the mode you chose.\n"
    )


def _check_agent(session: Session, name: str) -> None:
    from agh.adapters import registry
    from agh.sessions.start import check_agent

    with redirect_stderr(StringIO()):
        check_agent(meta.read(session), name)
        record = registry.agents().get(name)
    if record is not None and record.state() == "not installed":
        hint = f"install it: {record.install}" if record.install else None
        raise AgentNotInstalled(name, "it is not installed", hint=hint)


def _check_idle(session: Session) -> None:
    from agh.sessions.queue import read_inputs

    statuses = [entry["status"] for entry in read_inputs(session, everything=False)]
    if client.call(session, "hello").get("turn_id") or "dispatching" in statuses:
        raise Usage("a turn is running", hint="wait until it ends, or cancel it with Ctrl-C")
    if "queued" in statuses:
        raise Usage("prompts are queued for this agent", hint="/queue lists them; /queue drop drops them")
