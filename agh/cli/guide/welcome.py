"""A greeting for a user without sessions: which agents there are, what to type next.

On a terminal only, on stderr only: a script sees nothing of it.
"""

from __future__ import annotations

import sys

from agh.adapters import registry
from agh.adapters.agents import AgentRecord
from agh.console.output import remark
from agh.errors import AghError
from agh.home import home_path
from agh.store import sessions


def welcome() -> bool:
    """Greet a user on a terminal without sessions; return whether anything was printed."""
    try:
        if not sys.stderr.isatty() or sessions.session_ids():
            return False
        remark(words(list(registry.agents(sessions.working_directory()).values())))
    except (AghError, OSError):
        return False  # a command that needs the home will report what is wrong with it
    return True


def words(agents: list[AgentRecord]) -> str:
    real = [agent for agent in agents if agent.name != registry.ECHO]
    installed = [agent.name for agent in real if agent.state() == "installed"]
    runnable = [agent.name for agent in real if agent.state() == "runnable"]
    lines = [f"There are no sessions yet; they will be kept in {home_path()}."]
    if installed:
        lines.append(f"Agents found: {', '.join(installed)}.")
    if runnable:
        lines.append(f"Not installed, but npx can run: {', '.join(runnable)}.")
    if not installed:
        has_echo = len(real) < len(agents)
        answers = ", so agh uses the built-in echo agent, which repeats your prompt" if has_echo else ""
        lines.append(f"No agent is installed{answers}. Install one, for example:")
        lines += [f"  {agent.install}" for agent in real if agent.install][:1]
    lines += [
        "Next:",
        "  agh run 'what does this project do?'          one prompt, one answer",
        "  agh new --name first                          a session that stays",
        "  agh attach first                              chat with it",
        "  agh agent list                                every agent that agh knows",
    ]
    return "\n".join(lines) + "\n"
