"""`agh session list`"""

from __future__ import annotations

import sys
from typing import Any

import click

from agh.console import terminal
from agh.console.output import output_option, remark, write_documents, write_json, write_result, write_text
from agh.core.display.brief import Brief, brief_of
from agh.core.status import BADGES
from agh.errors import Usage
from agh.sessions.listing import SHOWN_STATES, select_briefs, select_documents
from agh.store.sessions import session_ids


@click.command(
    "list",
    epilog="\b\nExamples:\n  agh session list --resumable --workspace .\n"
    "  agh session list --watch\n"
    "  agh session list --on . --on ssh:build1 --on ssh:build2\n"
    "  agh session list --all --status failed -o json | jq -r '.sessions[].id'",
)
@click.option("-a", "--all", "everything", is_flag=True, help="Include old and archived sessions.")
@click.option("--resumable", is_flag=True, help="Only sessions that can be resumed or attached to.")
@click.option("--why", is_flag=True, help="With --resumable: also list the others, with the reason.")
@click.option("--workspace", metavar="W", help="Only sessions of this workspace: a name, an id or a path.")
@click.option(
    "--state", type=click.Choice(SHOWN_STATES), metavar="STATE", help="Only sessions in this state."
)
@click.option(
    "--status",
    "--badge",
    "badge",
    type=click.Choice(BADGES),
    metavar="STATUS",
    help="Only sessions with this status; --badge means the same.",
)
@click.option("--agent", help="Only sessions of this agent.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="At most this many.")
@click.option(
    "--on",
    "hosts",
    multiple=True,
    metavar="PLACE",
    help="List the sessions of this host, with its own agh; . is this machine. Repeatable.",
)
@click.option("--watch", is_flag=True, help="Keep showing the list, up to date, until Ctrl-C.")
@output_option()
def list_command(output: str, limit: int | None, watch: bool, hosts: tuple[str, ...], **filters: Any) -> None:
    """List sessions: live and recent ones, newest activity first.

    Recent means the last week; --all includes older and archived sessions. On a terminal, sessions that need
    you come first. A live session is resumable if its keeper responds and nobody else is attached; a stopped
    one is resumable if its log, workspace and agent exist.

    With --on, all hosts are asked at once and have 30 seconds to answer. If a host fails, agh names it on
    stderr and lists the others; the exit code is that of the first failure.
    """
    if filters["why"] and not filters["resumable"]:
        raise Usage("--why needs --resumable", hint="agh session list --resumable --why")
    if hosts and watch:
        raise Usage("--watch does not work with --on", hint="leave out --on or --watch")
    if watch:
        _watch(output, limit, filters)
        return
    if hosts:
        _list_hosts(output, hosts, limit, filters)
        return
    holder = terminal.default_holder()
    if output == "human":
        from agh.cli.session.table import table

        briefs = _urgent_first(select_briefs(holder=holder, **filters))[:limit]
        write_text(table(briefs))
        if not briefs:
            _tell_nothing(filters["everything"])
        return
    write_documents("sessions", select_documents(holder=holder, limit=limit, **filters), output)


def _urgent_first(briefs: list[Brief]) -> list[Brief]:
    """Return the sessions as a table shows them: first those that need you."""
    from agh.cli.session.table import NEEDS_YOU

    urgent = [brief for brief in briefs if brief.badge in NEEDS_YOU]
    return [*urgent, *(brief for brief in briefs if brief.badge not in NEEDS_YOU)] if urgent else briefs


def _list_hosts(output: str, hosts: tuple[str, ...], limit: int | None, filters: dict[str, Any]) -> None:
    from agh.sessions.elsewhere.listing import list_hosts, merge

    is_human = output == "human"
    lists = list_hosts(hosts, terminal.default_holder(), None if is_human else limit, **filters)
    failed = [(listed.host, listed.error) for listed in lists if listed.error is not None]
    views = merge(lists, None if is_human else limit)
    if is_human:
        from agh.cli.session.table import table

        write_text(table(_urgent_first(list(map(brief_of, views)))[:limit]))
        if not views and not failed:
            remark(
                "no sessions" if filters["everything"] else "no recent sessions; see older ones with --all"
            )
    elif output == "json":
        failures = [{"host": host, "error": error.as_dict()} for host, error in failed]
        write_json({"sessions": views, "failed": failures})
    else:
        write_result("sessions", views, output, str)
    for host, error in failed:
        message = error.message if host in error.message else f"{host}: {error.message}"
        remark(f"agh: {terminal.one_line(message, 2000)}")
    if failed:
        raise click.exceptions.Exit(failed[0][1].exit)


def _watch(output: str, limit: int | None, filters: dict[str, Any]) -> None:
    if output != "human" or not terminal.is_fancy():
        raise Usage("--watch needs a terminal", hint="agh session events --all --follow")
    from agh.cli.session.table import table
    from agh.console import theme
    from agh.console.screen import keep_showing

    theme.ask_terminal()
    holder = terminal.default_holder()

    def draw() -> str:
        return table(_urgent_first(select_briefs(holder=holder, **filters))[:limit]) or "no sessions\n"

    keep_showing(draw)


def _tell_nothing(everything: bool) -> None:
    if sys.stderr.isatty():
        from agh.cli.guide.welcome import welcome

        if welcome():
            return
    if not session_ids():
        remark("no sessions yet; start one with: agh run 'what does this project do?'")
    else:
        remark("no sessions" if everything else "no recent sessions; see older ones with --all")
