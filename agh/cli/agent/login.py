"""`agh agent login` and `logout`: the login of an agent"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

import click

from agh.console.output import output_option, remark, write_result
from agh.errors import AgentNotInstalled, Usage
from agh.sessions.agent.login import log_in, log_out


@click.command("login", epilog="Example:  agh agent login claude")
@click.argument("name")
@click.argument("method", required=False)
@output_option()
def login(name: str, method: str | None, output: str) -> None:
    """Log in to an agent, with METHOD or the first method it offers.

    `agh agent doctor NAME` lists the methods. A terminal login runs the agent's own program.
    Exits 9 if the agent still needs a login afterwards.
    """
    report = log_in(name, method, run_on_terminal)
    by = f" with {report['method']}" if report["method"] else ""
    write_result("agent", report, output, lambda: f"logged in to {report['name']}{by}")


@click.command("logout", epilog="Example:  agh agent logout claude")
@click.argument("name")
@output_option()
def logout(name: str, output: str) -> None:
    """Log out of an agent, if it supports that."""
    report = log_out(name)
    write_result("agent", report, output, lambda: f"logged out of {report['name']}")


def run_on_terminal(argv: list[str], environ: Mapping[str, str]) -> int:
    """Run a program on this terminal and return its exit code."""
    import shlex
    import subprocess

    if not (os.isatty(0) and sys.stderr.isatty()):
        raise Usage("this login needs a terminal", hint=f"run it in a terminal: {shlex.join(argv)}")
    remark(f"running {shlex.join(argv)}")
    try:
        return subprocess.call(argv, env=dict(environ))
    except OSError as error:
        raise AgentNotInstalled(argv[0], str(error.strerror)) from None
