"""`agh db build`"""

from __future__ import annotations

from dataclasses import asdict

import click

from agh.cli.db.common import progress_bar, report_damage
from agh.console import terminal
from agh.console.output import output_option, write_result
from agh.console.when import parse_time
from agh.errors import Usage
from agh.sessions.database.file import default_path, ensure_default_directory
from agh.store import sessions


@click.command(
    "build",
    epilog="\b\nExamples:\n  agh db build agh.db && agh db metadata agh.db > agh.json\n"
    "  agh db build shared.db fix-login --redact",
)
@click.argument("file", required=False, type=click.Path(dir_okay=False))
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--all", "every", is_flag=True, help="All sessions, even archived ones (default).")
@click.option("--since", metavar="TIME", help="Only sessions changed since: RFC 3339, or 5m, 2h, 3d ago.")
@click.option("--redact", is_flag=True, help="Hide secrets: known values, tokens, assigned passwords.")
@output_option()
def build_command(
    file: str | None, ids: tuple[str, ...], every: bool, since: str | None, redact: bool, output: str
) -> None:
    """Write sessions into an SQLite database, or update it.

    Run it again to update FILE: it reads only sessions that have changed, and drops those you have deleted.
    Updates are atomic, so readers see the old content or the new. FILE gets mode 0600 and must be new, or
    built by agh. If it was built with --redact, it stays redacted.

    Without FILE, updates the database of `agh db query` in the cache directory.
    """
    if ids and (every or since):
        raise Usage("give either session IDs or --all/--since, not both", hint="agh db build FILE --all")
    session_ids = [sessions.resolve(id).id for id in ids] if ids else None
    changed_since = parse_time(since, "--since") if since else None
    if file is None:
        if redact:
            raise Usage("--redact needs a file", hint="agh db build FILE --redact")
        ensure_default_directory()
    from agh.sessions.database.build import build

    report = build(
        file or default_path(), session_ids, since=changed_since, redact=redact, progress=progress_bar
    )
    counts = f"{report.updated} updated, {report.unchanged} unchanged, {report.deleted} deleted"
    write_result("database", asdict(report), output, lambda: terminal.clean(f"{report.path}  {counts}"))
    report_damage(report.damaged)
