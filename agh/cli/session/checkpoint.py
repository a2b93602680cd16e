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
@click.option("--rebuild", is_flag=True, help="Make it again from the log.")
@output_option()
def checkpoint_command(id: str, rebuild: bool, output: str) -> None:
    """Show what was captured when a session paused. A damaged checkpoint is refused."""
    directory = sessions.resolve(id)
    if rebuild:
        from agh.sessions.checkpoint import rebuild as make_again

        found = make_again(directory)
    else:
        found = checkpoint.read(directory)
    write_result("checkpoint", found, output, lambda: describe(found))


def describe(found: dict[str, Any]) -> str:
    state = found["constraint_state"]
    lines = [
        ("session", found["session_id"]),
        ("created", found["created_at"]),
        ("budget", f"{state['budget_spent']:g} spent"),
        ("rounds", str(found["rounds_completed"])),
        ("elapsed", f"{state['elapsed_seconds']:g} s"),
        *(("agent", _agent(one)) for one in found["active_agents"]),
        *(("pending", _pending(one)) for one in found["pending_delegations"]),
    ]
    return "\n".join(f"{label + ':':<10}{terminal.one_line(text, 1000)}" for label, text in lines)


def _agent(one: dict[str, Any]) -> str:
    pad = ", a scratch pad" if one.get("expertise_snapshot") else ""
    return f"{one['agent_id']} (tail of {len(one['conversation_tail'])}{pad})"


def _pending(one: dict[str, Any]) -> str:
    return f"round {one['round']} to {one['target']}, {one['status']}: {one['message']}"
