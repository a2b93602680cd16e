"""The first words to someone who has no sessions yet: which agents were found, what to type next.

On a terminal only, on stderr only: a script sees nothing of it.
"""

from __future__ import annotations

import sys

from agh.adapters import registry
from agh.adapters.agents import AgentRecord
from agh.console.output import talk
from agh.errors import AghError
from agh.home import home_path
from agh.store import sessions


def welcome() -> bool:
    """Say it, if there is no session at all and someone who reads it; whether it was said."""
    try:
        if not sys.stderr.isatty() or sessions.session_ids():
            return False
        talk(words(list(registry.agents(sessions.here()).values())))
    except (AghError, OSError):
        return False  # a command that needs the home will say what is wrong with it
    return True


def words(agents: list[AgentRecord]) -> str:
    real = [one for one in agents if one.name != registry.ECHO]
    installed = [one.name for one in real if one.state() == "installed"]
    runnable = [one.name for one in real if one.state() == "runnable"]
    lines = [f"There are no sessions yet; they will be kept in {home_path()}."]
    if installed:
        lines.append(f"Agents found: {', '.join(installed)}.")
    if runnable:
        lines.append(f"Not installed, but npx can run: {', '.join(runnable)}.")
    if not installed:
        answers = ", so the embedded echo agent answers" if len(real) < len(agents) else ""
        lines.append(f"No agent is installed{answers}. Install one, for example:")
        lines += [f"  {one.install}" for one in real if one.install][:1]
    lines += [
        "Next:",
        "  agh run 'what does this project do?'          one prompt, one answer",
        "  agh session new --name first                  a session that stays",
        "  agh session attach first                      talk to it",
        "  agh agent list                                every agent that agh knows",
    ]
    return "\n".join(lines) + "\n"
