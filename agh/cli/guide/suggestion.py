"""The command that a mistyped or foreign word was meant for. Imported only when a command is not there.

Words of git, docker, gh and tmux come from a table; other words are compared with the commands' names.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import click

from agh.core.suggest import closest

# What a word from another program may mean here, the likeliest first: names, or whole paths.
MEANINGS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("ps", "ls", "all", "sessions"), ("list",)),
    **dict.fromkeys(("rm", "del", "remove", "delete", "drop", "destroy"), ("delete", "remove")),
    **dict.fromkeys(("kill", "end", "halt", "quit", "down", "shutdown"), ("stop",)),
    **dict.fromkeys(("abort", "break"), ("cancel",)),
    **dict.fromkeys(("logs", "reflog", "watch", "tail", "follow"), ("log", "events")),
    **dict.fromkeys(("send", "exec", "say", "tell", "message", "input"), ("prompt",)),
    **dict.fromkeys(("ask", "query", "once", "print"), ("run",)),
    **dict.fromkeys(("create", "start", "init", "spawn", "launch", "up", "add"), ("new", "add")),
    **dict.fromkeys(("open", "connect", "enter", "chat", "join", "switch", "checkout"), ("attach",)),
    **dict.fromkeys(("continue", "restart", "unpause", "reopen", "wake"), ("resume",)),
    **dict.fromkeys(("show", "info", "inspect", "view", "describe"), ("show", "status", "get")),
    **dict.fromkeys(("grep", "find", "locate"), ("search",)),
    **dict.fromkeys(("clone", "branch", "copy", "cp", "duplicate"), ("fork",)),
    **dict.fromkeys(("mv", "name", "title"), ("rename",)),
    **dict.fromkeys(("gc", "clean", "cleanup", "purge", "autoremove"), ("prune",)),
    **dict.fromkeys(("fsck", "recover", "fix", "heal"), ("repair",)),
    **dict.fromkeys(("save", "dump", "backup", "push"), ("export",)),
    **dict.fromkeys(("load", "pull", "fetch"), ("import",)),
    **dict.fromkeys(("allow", "accept", "grant", "yes"), ("approve",)),
    **dict.fromkeys(("reject", "refuse", "no"), ("deny",)),
    **dict.fromkeys(("stats", "cost", "costs", "tokens"), ("usage",)),
    **dict.fromkeys(("summary", "summarize", "summarise"), ("recap",)),
    **dict.fromkeys(("hide", "close"), ("archive",)),
    **dict.fromkeys(("release", "leave", "disconnect"), ("detach",)),
    **dict.fromkeys(("settings", "set", "options", "preferences"), ("set", "config")),
    **dict.fromkeys(("extension", "extensions", "addons"), ("plugins",)),
    **dict.fromkeys(("login", "auth"), ("agent doctor",)),
    "agents": ("agent list",),
    "install": ("plugins install",),
    **dict.fromkeys(("web", "ui", "server", "dashboard"), ("serve",)),
    **dict.fromkeys(("check", "diagnose", "health"), ("doctor",)),
    **dict.fromkeys(("manual", "docs"), ("man", "help")),
}
ELSEWHERE = 0.75  # how alike a word must be to a command that is not in the group it was looked for in
LINE = 90


def suggest(root: click.Group, words: Sequence[str]) -> str:
    """Return the command line that was probably meant; else the help of the last group."""
    command: click.Command = root
    path: list[str] = []
    rest = list(words)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        meant = _meant(root, command, path, rest[0])
        if meant is None and " " in rest[0] and command is root:
            return f"agh run {shlex.quote(rest[0])}"
        if meant is None:
            return " ".join(["agh", *path, "--help"])
        path, command = meant
        rest = rest[1:]
    line = " ".join(["agh", *path])
    longer = f"{line} {shlex.join(_usable(command, rest))}".rstrip()
    return longer if len(longer) <= LINE else line


def _usable(command: click.Command, words: list[str]) -> list[str]:
    """Return the words that a command can take: all of them, or those before the first option."""
    if isinstance(command, click.Group):
        return []
    try:
        command.make_parser(click.Context(command)).parse_args(list(words))
    except click.UsageError:
        options = [number for number, word in enumerate(words) if word.startswith("-")]
        return words[: options[0]] if options else words
    return words


def _meant(
    root: click.Group, group: click.Group, path: list[str], word: str
) -> tuple[list[str], click.Command] | None:
    """Return the path and the command that a word stands for in a group; it may be in another group."""
    if (command := _get(group, word)) is not None:
        return [*path, word], command
    own, elsewhere = _own(group, path), _elsewhere(root)
    meanings = MEANINGS.get(word.lower(), ())
    whole = {meaning: meaning.split() for meaning in meanings if " " in meaning}
    paths = elsewhere | whole | own
    name = next((name for name in meanings if name in own), "") or next(iter(whole), "")
    name = name or next((name for name in (word, *meanings) if name in elsewhere), "")
    name = name or closest(word, own) or closest(word, elsewhere, cutoff=ELSEWHERE)
    if not name:
        return None
    meant: click.Command | None = root
    for step in paths[name]:
        meant = _get(meant, step) if isinstance(meant, click.Group) else None
    return None if meant is None else (paths[name], meant)


def _own(group: click.Group, path: list[str]) -> dict[str, list[str]]:
    """Return the path of every command in a group, by name."""
    names = [*group.list_commands(click.Context(group)), *getattr(group, "short", ())]
    return {name: [*path, name] for name in names}


def _elsewhere(root: click.Group) -> dict[str, list[str]]:
    """Return the paths of the commands that are looked for anywhere: on sessions, and at the top."""
    session = _get(root, "session")
    on_sessions = _own(session, ["session"]) if isinstance(session, click.Group) else {}
    return on_sessions | _own(root, [])


def _get(group: click.Group, name: str) -> click.Command | None:
    return group.get_command(click.Context(group), name)
