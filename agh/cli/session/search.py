"""`agh session search`"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import click

from agh.console import terminal
from agh.console.output import output_option, remark, write_result
from agh.console.progress import progress
from agh.console.when import local, parse_time
from agh.core.search import ROLES, expression, highlights
from agh.errors import DataDamaged, MetaInvalid, NothingFound, Usage
from agh.home import session_of
from agh.store import meta, sessions
from agh.store.search.index import Match, Query, find


@click.command(
    "search",
    epilog="\b\nExamples:\n  agh session search login 'stop path' --role assistant\n"
    "  agh session search 'time*' --all-workspaces --since 7d -o jsonl | jq -r .session_id",
)
@click.argument("words", nargs=-1, required=True, metavar="WORD...")
@click.option("--all-workspaces", is_flag=True, help="Every session, not only those of this directory.")
@click.option(
    "--role", "roles", multiple=True, type=click.Choice(ROLES), help="Only messages of this role. Repeatable."
)
@click.option("--since", metavar="TIME", help="RFC 3339, or how long ago: 5m, 2h, 3d.")
@click.option(
    "--limit", metavar="N", type=click.IntRange(1, 10_000), default=20, show_default=True, help="At most N."
)
@click.option("--rebuild", is_flag=True, help="Read every session again and rebuild the index.")
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

    Every WORD must occur in the message. A WORD with spaces is a phrase; word* matches every word that starts
    with it. Case and accents are ignored. Exits 1 if nothing matches.
    """
    fts_query = expression(words)
    if not fts_query:
        raise Usage("a search needs at least one letter or digit", hint="agh session search login")
    here = None if all_workspaces else _with_parents(os.path.realpath(sessions.working_directory()))
    query = Query(fts_query, roles, parse_time(since, "--since") if since else None, here, limit)
    result = find(query, lambda items, total: progress(items, "indexing", total), rebuild=rebuild)
    rows = [describe(match) for match in result.matches]
    write_result("matches", rows, output, lambda: "".join(_format_matches(rows)))
    if result.behind:
        remark("another search is still building the index, so results may be missing")
    for error in result.damaged:
        remark(f"left out: {error}")
    if result.damaged:
        raise click.exceptions.Exit(DataDamaged.exit)
    if not rows:
        raise _nothing_found(words, all_workspaces)


def _nothing_found(words: tuple[str, ...], all_workspaces: bool) -> NothingFound:
    if all_workspaces:
        return NothingFound("", hint="word* also finds longer words; see agh search --help")
    import shlex

    path = click.get_current_context().command_path
    hint = f"{path} --all-workspaces {shlex.join(words)}"
    return NothingFound(" in the sessions of this directory", hint=hint)


def describe(match: Match) -> dict[str, Any]:
    """Describe a match, with the current name and title of its session."""
    text, spans = highlights(match.snippet)
    try:
        session_meta: Any = meta.read(session_of(match.session_id))
    except MetaInvalid:
        session_meta = {}
    session = {key: session_meta.get(key) for key in ("name", "title", "agent_name", "workspace_path")}
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


def _with_parents(path: str) -> tuple[str, ...]:
    """Return a directory and all above it: sessions of any of them belong to this directory."""
    directories = [path]
    while os.path.dirname(path) != path:
        path = os.path.dirname(path)
        directories.append(path)
    return tuple(directories)


def _format_matches(rows: list[dict[str, Any]]) -> Iterator[str]:
    now = datetime.now(UTC)
    for row in rows:
        words = [
            row["session_id"],
            str(row["sequence"]),
            row["role"],
            local(row["timestamp"], now)[: len("2026-04-16 03:10")],
        ]
        name = row["name"] or row["title"] or ""
        head = terminal.one_line("  ".join([*words, name]), max(40, terminal.width()))
        yield f"{terminal.styled(head, 'title')}\n    {_highlight(row['snippet'], row['highlights'])}\n"


def _highlight(text: str, spans: list[tuple[int, int]]) -> str:
    """Put the snippet on one line, with matches in colour, or between marks without colour."""
    parts, position = [], 0
    for start, end in spans:
        parts.append(_flatten(text[position:start]))
        word = _flatten(text[start:end])
        parts.append(terminal.styled(word, "match") if terminal.has_colour() else f"«{word}»")
        position = end
    return "".join([*parts, _flatten(text[position:])])


def _flatten(text: str) -> str:
    return terminal.clean(text.replace("\n", " ").replace("\t", " "))
