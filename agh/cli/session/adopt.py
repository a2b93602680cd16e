"""`agh session import --from-agent`: the sessions that an agent has of its own."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

import click

from agh.console import terminal
from agh.console.output import columns, remark, write_result
from agh.console.progress import progress
from agh.console.when import age
from agh.errors import Usage, WorkspaceGone


def adopt_command(
    agent: str, ids: tuple[str, ...], cwd: str | None, everywhere: bool, only_list: bool, output: str
) -> None:
    """List an agent's sessions, or adopt them, and print what became of each."""
    from agh.sessions.agent.adopt import adopt, list_own  # an import of files starts no agent

    directory = os.path.realpath(cwd or os.getcwd())
    if not os.path.isdir(directory):
        raise WorkspaceGone(directory, hint="name a directory with --cwd")
    if only_list:
        if ids:
            raise Usage("--list takes no ID", hint=f"agh session import --from-agent {agent} --list")
        own_sessions = list_own(agent, directory, everywhere=everywhere)
        write_result("agent_sessions", own_sessions, output, lambda: _table(own_sessions))
        if not own_sessions:
            _tell_nothing(agent, directory, everywhere)
        return
    outcomes = list(progress(adopt(agent, directory, ids, everywhere=everywhere), "adopting"))
    errors = [outcome["error"] for outcome in outcomes if "error" in outcome]
    if errors and len(outcomes) == 1:
        raise errors[0]
    for error in errors:
        remark(error.message)
    rows = [
        outcome | ({"error": outcome["error"].as_dict()} if "error" in outcome else {})
        for outcome in outcomes
    ]
    write_result("imports", rows, output, lambda: "".join(map(_line, rows)))
    if not outcomes:
        _tell_nothing(agent, directory, everywhere)
    if errors:
        raise click.exceptions.Exit(errors[0].exit)


def _tell_nothing(agent: str, directory: str, everywhere: bool) -> None:
    if everywhere:
        remark(f"{agent} lists no sessions")
    else:
        remark(f"{agent} lists no sessions of {directory}; see those of all directories with --all")


def _table(own_sessions: list[dict[str, Any]]) -> str:
    if not own_sessions:
        return ""
    now = datetime.now(UTC)
    rows = [
        (
            terminal.one_line(own["id"], 100),
            age(own["updated_at"], now),
            own["session_id"] or "-",
            terminal.one_line(own["cwd"], 60),
            terminal.one_line(own["title"] or "-", 60),
        )
        for own in own_sessions
    ]
    return columns(("ID", "ACTIVE", "SESSION", "DIRECTORY", "TITLE"), rows)


def _line(outcome: dict[str, Any]) -> str:
    reason = outcome["reason"] or (f"{outcome['events']} events" if outcome["status"] == "imported" else "")
    words = [outcome["session_id"] or "-", outcome["status"], reason, outcome["agent_session"]]
    words.append(outcome["title"] or "")
    return terminal.clean("  ".join(word for word in words if word)).replace("\n", " ") + "\n"
