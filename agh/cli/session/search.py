"""`agh session search`"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import click

from agh.console import terminal
from agh.console.output import output_option, talk, write_result
from agh.console.progress import progress
from agh.console.when import moment
from agh.core.search import ROLES, expression, highlights
from agh.errors import DataDamaged, MetaInvalid, Usage
from agh.home import session_path
from agh.store import meta, sessions
from agh.store.index import Match, Query, find


@click.command(
    "search",
    epilog="\b\nExamples:\n  agh session search login 'stop path' --role assistant\n"
    "  agh session search 'time*' --all-workspaces --since 7d -o jsonl | jq -r .session_id",
)
@click.argument("words", nargs=-1, required=True, metavar="WORD...")
@click.option("--all-workspaces", is_flag=True, help="Every session, not only those of this directory.")
@click.option("--role", "roles", multiple=True, type=click.Choice(ROLES), help="Only these. Repeatable.")
@click.option("--since", metavar="TIME", help="RFC 3339, or how long ago: 5m, 2h, 3d.")
@click.option(
    "--limit", metavar="N", type=click.IntRange(1, 10_000), default=20, show_default=True, help="At most N."
)
@click.option("--rebuild", is_flag=True, help="Read every session again and make the index anew.")
@output_option()
def search_command(
    words: tuple[str, ...],
    all_workspaces: bool,
    roles: tuple[str, ...],
    since: str | None,
    limit: int,
    rebuild: bool,
    output: str,
) -> None:
    """Find messages in all sessions of this directory, newest first.

    Every WORD must occur in the message; one with spaces in it is a phrase, and word* finds what begins so.
    Upper case and accents do not count. The index that makes this fast is kept in the cache directory.
    """
    match = expression(words)
    if not match:
        raise Usage("there is no letter or digit to look for", hint="agh session search login")
    here = None if all_workspaces else _upwards(os.path.realpath(sessions.here()))
    query = Query(match, roles, moment(since, "--since") if since else None, here, limit)
    found = find(query, lambda items, total: progress(items, "indexing", total), rebuild=rebuild)
    shown = [describe(one) for one in found.matches]
    write_result("matches", shown, output, lambda: "".join(_human(shown)))
    if output == "human" and not shown:
        talk(
            "nothing found"
            + ("" if all_workspaces else " in the sessions of this directory; try --all-workspaces")
        )
    if found.behind:
        talk("another search is still building the index: what it has not read yet is not here")
    for error in found.damaged:
        talk(f"left out: {error}")
    if found.damaged:
        raise click.exceptions.Exit(DataDamaged.exit)


def describe(match: Match) -> dict[str, Any]:
    """A match with what its session is called today."""
    text, spans = highlights(match.snippet)
    try:
        found: Any = meta.read(session_path(match.session_id))
    except MetaInvalid:
        found = {}
    session = {key: found.get(key) for key in ("name", "title", "agent_name", "workspace_path")}
    return {
        "session_id": match.session_id,
        **session,
        "turn_id": match.turn_id,
        "sequence": match.sequence,
        "role": match.role,
        "timestamp": match.timestamp,
        "snippet": text,
        "highlights": spans,
    }


def _upwards(path: str) -> tuple[str, ...]:
    """A directory and all above it: a session of any of them is one of this place."""
    found = [path]
    while os.path.dirname(path) != path:
        path = os.path.dirname(path)
        found.append(path)
    return tuple(found)


def _human(shown: list[dict[str, Any]]) -> Iterator[str]:
    for one in shown:
        words = [
            one["session_id"],
            str(one["sequence"]),
            one["role"],
            one["timestamp"][:16].replace("T", " "),
        ]
        name = one["name"] or one["title"] or ""
        head = terminal.one_line("  ".join([*words, name]), max(40, terminal.width()))
        yield f"{terminal.styled(head, 'bold')}\n    {_marked(one['snippet'], one['highlights'])}\n"


def _marked(text: str, spans: list[tuple[int, int]]) -> str:
    """The snippet on one line, with what matched in colour, or between marks where there is none."""
    parts, done = [], 0
    for start, end in spans:
        parts.append(_flat(text[done:start]))
        word = _flat(text[start:end])
        parts.append(terminal.styled(word, "yellow") if terminal.has_colour() else f"«{word}»")
        done = end
    return "".join([*parts, _flat(text[done:])])


def _flat(text: str) -> str:
    return terminal.clean(text.replace("\n", " ").replace("\t", " "))
