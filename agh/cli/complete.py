"""What the Tab key offers: `agh __complete WORD…`, the last of the words being the one to complete.

Prints a line per candidate: the word, a tab, a description. An empty word before the tab asks the shell
to complete a `file` or `dir` itself. Answers without click, from the table in `commands.json`; only a
plugin that the table does not know makes it load the commands. Writes nothing but the cache of the list, and
never says what is wrong: whoever presses Tab has not asked anything yet.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # what type checkers read as true, without the cost of importing typing
if TYPE_CHECKING:
    from collections.abc import Iterator

    from agh.cli.tree import Entry, Option, Table, Takes

TABLE = os.path.join(os.path.dirname(__file__), "commands.json")
Candidate = tuple[str, str]
DESCRIBED = 1000  # ids; describing more would take longer than finding them


def main(words: list[str]) -> None:
    """Print the candidates."""
    try:
        from agh.console.terminal import one_line

        lines = [f"{word}\t{one_line(text, 80)}\n" for word, text in candidates(words) if word.isprintable()]
        sys.stdout.buffer.write("".join(lines).encode(errors="replace"))
        sys.stdout.flush()
    except Exception:
        if os.environ.get("AGH_DEBUG"):
            raise
    os._exit(0)


def candidates(words: list[str]) -> Iterator[Candidate]:
    """Yield what the last word could become after those before it."""
    *before, word = words or [""]
    is_help = before[:1] == ["help"]
    before = before[is_help:]
    table = _table(before)
    path, entry, literal = "", table[""], False
    positional: list[str] = []
    pending: Option | None = None
    used: set[str] = set()
    for previous in before:
        if pending is not None:
            pending = None
        elif previous == "--":
            literal = True
        elif previous.startswith("-") and previous != "-" and not literal:
            name, equals, _ = previous.partition("=")
            option = _option(entry, name)
            used.update(option["names"] if option else ())
            pending = option if option and option["takes"] is not None and not equals else None
        elif (below := f"{path} {previous}".strip()) in table and not positional:
            path, entry, used = below, table[below], set()
        else:
            positional.append(previous)
    if is_help:  # a command has help, its options and arguments have none of their own
        yield from _matching(iter([] if positional else _below(table, path)), word)
    else:
        yield from _matching(_offered(table, path, entry, word, positional, pending, used, literal), word)


def _offered(
    table: Table,
    path: str,
    entry: Entry,
    word: str,
    positional: list[str],
    pending: Option | None,
    used: set[str],
    literal: bool,
) -> Iterator[Candidate]:
    name, equals, _ = word.partition("=")
    if pending is not None:
        yield from _values(pending["takes"], word)
    elif word.startswith("--") and equals and not literal:
        option = _option(entry, name)
        if option and option["takes"] is not None:
            for value, text in _values(option["takes"], word[len(name) + 1 :]):
                yield (f"{name}={value}" if value else value), text
    elif word.startswith("-") and not literal:
        for option in entry["options"]:
            if option["many"] or not used.intersection(option["names"]):
                yield max(option["names"], key=len), option["help"]
    elif below := _below(table, path):
        if not positional:
            yield from below
    elif entry["arguments"]:
        arguments = entry["arguments"]
        if "--continue" in used and not positional and any(each["takes"] == "prompt" for each in arguments):
            yield from _slash_commands(None)
        elif len(positional) < len(arguments) or arguments[-1]["many"]:
            takes = arguments[min(len(positional), len(arguments) - 1)]["takes"]
            yield from _slash_commands(positional[0]) if takes == "prompt" else _values(takes, word)


def _matching(offered: Iterator[Candidate], word: str) -> Iterator[Candidate]:
    return (candidate for candidate in offered if candidate[0].startswith(word) or not candidate[0])


def _option(entry: Entry, name: str) -> Option | None:
    return next((option for option in entry["options"] if name in option["names"]), None)


def _below(table: Table, path: str) -> list[Candidate]:
    start = f"{path} " if path else ""
    return [
        (command[len(start) :], entry["help"])
        for command, entry in table.items()
        if command.startswith(start) and command and " " not in command[len(start) :]
    ]


def _values(takes: Takes, word: str) -> Iterator[Candidate]:
    """Yield the values that a parameter takes."""
    if isinstance(takes, list):
        yield from ((value, text) for value, text in takes)
    elif takes == "session":
        yield from _sessions(word)
    elif takes == "agent":
        yield from _agents()
    elif takes == "catalog":
        yield from _catalog()
    elif takes == "workspace":
        yield from _workspaces()
        yield "", "dir"
    elif takes:
        yield "", takes


def _sessions(word: str) -> Iterator[Candidate]:
    """Yield names and ids, newest activity first; those of old sessions only once something is typed."""
    from agh.store import sessions
    from agh.store.views import list_briefs

    briefs = list_briefs()
    if not word:
        briefs = briefs[:DESCRIBED]
    here, named = sessions.working_directory(), []
    for brief in briefs:
        if brief.name and brief.name.startswith(word):
            paths = filter(None, (brief.workspace_path, brief.origin))
            rank = brief.is_archived, not any(sessions.is_above(path, here) for path in paths)
            named.append((rank, brief.name, _join(brief.agent, brief.badge, brief.id)))
    if briefs:
        yield "@last", "the newest session of this directory"
    described: dict[str, str] = {}  # a name once: that of the session it would mean here
    for _, name, text in sorted(named, key=lambda row: row[0]):
        described.setdefault(name, text)
    yield from described.items()
    matching = (brief for brief in briefs if brief.id.startswith(word))
    for number, brief in enumerate(matching):
        yield brief.id, _join(brief.name, brief.agent, brief.badge) if number < DESCRIBED else ""


def _join(*texts: str | None) -> str:
    return " · ".join(filter(None, texts))


def _slash_commands(reference: str | None) -> Iterator[Candidate]:
    """Yield the commands that the session's agent has offered; None is the newest session here."""
    from agh.store import meta, sessions

    session = sessions.newest(os.path.realpath(sessions.working_directory()))
    session = sessions.resolve(reference) if reference is not None else session
    for entry in (meta.read(session).get("commands") or []) if session is not None else []:
        yield f"/{entry.get('name')}", str(entry.get("description") or entry.get("hint") or "")


def _agents() -> Iterator[Candidate]:
    from agh.adapters.registry import agents

    records = agents(os.getcwd()).values()
    for record in sorted(records, key=lambda record: record.state() == "not installed"):
        yield record.name, " · ".join(filter(None, (record.title, record.state())))


def _catalog() -> Iterator[Candidate]:
    """Yield the agents that can be installed, from the copy at hand."""
    from agh.adapters.registry import offered_agents
    from agh.catalog.plan import agent_names
    from agh.catalog.source import load_catalog

    entries = load_catalog(refresh=False).entries
    for id, name in agent_names(entries, offered_agents()).items():
        yield name, f"{entries[id].name} {entries[id].version}"


def _workspaces() -> Iterator[Candidate]:
    """Yield named workspaces, then the directories of sessions, newest first."""
    from agh.home import home_path
    from agh.store.views import list_briefs

    seen: dict[str, str] = {}
    try:
        with open(os.path.join(home_path(), "workspaces.toml"), "rb") as file:
            import tomllib

            seen |= {workspace["name"]: workspace["path"] for workspace in tomllib.load(file)["workspaces"]}
    except (OSError, ValueError, LookupError, TypeError):
        pass  # none is registered, or a command that needs the file will report what is wrong with it
    for brief in list_briefs():
        if brief.workspace_path:
            seen.setdefault(brief.workspace_path, brief.workspace_id)
    yield from seen.items()


def _table(before: list[str]) -> Table:
    """Load the stored table, less plugins that are not installed; a plugin it lacks needs the real tree."""
    import json  # three times faster to import than orjson, which nothing else needs here

    with open(TABLE, encoding="utf-8") as file:
        document = json.load(file)
    table: Table = document["commands"]
    short: dict[str, str] = document["short"]
    first = next((word for word in before if not word.startswith("-")), None)
    entry = None if first is None else table.get(short.get(first, first))
    if entry is None or "plugin" in entry:
        from agh.adapters.registry import entry_points

        installed = {plugin.name for plugin in entry_points()}
        if installed - set(document["plugins"]):
            from agh.cli.main import root
            from agh.cli.tree import describe

            table = describe(root)
        else:
            table = {
                name: entry for name, entry in table.items() if entry.get("plugin", "") in ("", *installed)
            }
    return table | {name: table[path] for name, path in short.items()}
