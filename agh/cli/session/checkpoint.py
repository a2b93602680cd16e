"""`agh session checkpoint`"""

from __future__ import annotations

from typing import Any

import click

from agh.console import terminal
from agh.console.output import output_option, write_result
from agh.store import checkpoint, sessions


@click.command(
    "checkpoint", epilog="Example:  agh session checkpoint @last -o json | jq .checkpoint.constraint_state"
)
@click.argument("id")
@click.option("--rebuild", is_flag=True, help="Rebuild a damaged checkpoint from the log.")
@output_option()
def checkpoint_command(id: str, rebuild: bool, output: str) -> None:
    """Show the checkpoint that a session saved when it paused."""
    session = sessions.resolve(id)
    if rebuild:
        from agh.sessions.checkpoint import rebuild as make_again

        document = make_again(session)
    else:
        document = checkpoint.read(session)
    write_result("checkpoint", document, output, lambda: describe(document))


def describe(document: dict[str, Any]) -> str:
    state = document["constraint_state"]
    lines = [
        ("session", document["session_id"]),
        ("created", document["created_at"]),
        ("budget", f"{state['budget_spent']:g} spent"),
        ("rounds", str(document["rounds_completed"])),
        ("elapsed", f"{state['elapsed_seconds']:g} s"),
        *(("agent", _agent(entry)) for entry in document["active_agents"]),
        *(("pending", _pending(entry)) for entry in document["pending_delegations"]),
    ]
    return "\n".join(f"{label + ':':<10}{terminal.one_line(text, 1000)}" for label, text in lines)


def _agent(agent: dict[str, Any]) -> str:
    pad = ", a scratch pad" if agent.get("expertise_snapshot") else ""
    return f"{agent['agent_id']} (last {len(agent['conversation_tail'])} messages{pad})"


def _pending(delegation: dict[str, Any]) -> str:
    return "round {round} to {target}, {status}: {message}".format(**delegation)
