"""`agh completion`: the Tab key's share of the work, for the shell to read"""

from __future__ import annotations

import os

import click

from agh.console.output import write_utf8

FILES = {"bash": "agh.bash", "zsh": "_agh", "fish": "agh.fish"}


@click.command(
    "completion",
    epilog="\b\nExamples:\n  agh completion bash > ~/.local/share/bash-completion/completions/agh\n"
    "  agh completion zsh > ~/.zfunc/_agh\n  agh completion fish > ~/.config/fish/completions/agh.fish",
)
@click.argument("shell", type=click.Choice(list(FILES)))
def completion(shell: str) -> None:
    """Print the script for Tab completion in a shell.

    It completes commands, options, sessions (with their name, agent and badge), agents, workspaces, types
    of events and settings. Installed packages bring the scripts along; a shell that does not look there
    reads them from this command.
    """
    write_utf8(script(shell))


def script(shell: str) -> str:
    with open(os.path.join(os.path.dirname(__file__), "completions", FILES[shell]), encoding="utf-8") as file:
        return file.read()
