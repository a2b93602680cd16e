"""`agh session export`"""

from __future__ import annotations

import shutil
import sys

import click

from agh.console import terminal
from agh.console.output import remark, write_lines, write_text
from agh.core.exchange import Exporter
from agh.errors import OutputFailed, Usage
from agh.sessions.export import exporter, take, temporary, write
from agh.store import sessions


@click.command(
    "export",
    epilog="\b\nExamples:\n  agh session export fix-login --redact --to fix-login.html\n"
    "  agh session export @last | ssh other agh session import -",
)
@click.argument("id")
@click.option(
    "-o",
    "--format",
    "format",
    metavar="FORMAT",
    help="jsonl, markdown, html, db, or a format from a plugin. [default: by FILE's suffix, else jsonl]",
)
@click.option(
    "--to", "path", type=click.Path(dir_okay=False), metavar="FILE", help="Write to FILE instead of stdout."
)
@click.option("--output", "old_path", type=click.Path(dir_okay=False), hidden=True)
@click.option("--redact", is_flag=True, help="Hide secrets: known values, tokens, assigned passwords.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
def export_command(
    id: str, format: str | None, path: str | None, old_path: str | None, redact: bool, force: bool
) -> None:
    """Write a session, live or not, to a file or to stdout.

    jsonl and db contain everything (metadata, events, usage, hook runs, queued prompts, permissions) and can
    be imported again. markdown and html contain only the conversation. The first line of jsonl describes the
    session; then come events, as `agh session events` prints them, and other rows as {"table", "row"}.

    --redact hides what looks like a secret. It can miss some, so check the file before you share it.
    """
    if old_path is not None:
        if path is not None:
            raise Usage("give either --output or --to, not both", hint="agh session export ID --to FILE")
        remark("--output FILE is deprecated; use --to FILE")
        path = old_path
    session = sessions.resolve(id)
    path = None if path == "-" else path
    writer = exporter(format, path)
    if path is None and writer.binary and terminal.is_terminal():
        raise Usage(
            f"{writer.name} cannot be printed on a terminal", hint=f"agh session export {id} --to FILE"
        )
    snapshot = take(session, redact=redact)
    if path is not None:
        write(writer, snapshot, path, force=force)
        remark(f"{snapshot.session['id']}  {snapshot.last_sequence} events  {path}")
    else:
        with temporary(writer, snapshot) as file:
            _show(file, writer)


def _show(path: str, writer: Exporter) -> None:
    """Print the export: harmless text on a terminal, the exact bytes of the file in a pipe."""
    if terminal.is_terminal():
        with open(path, encoding="utf-8") as text:
            if writer.name == "jsonl":
                for line in text:
                    write_lines([line.rstrip("\n")])
            else:
                write_text(terminal.clean(text.read()))
        return
    sys.stdout.flush()
    try:
        with open(path, "rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputFailed(error.strerror) from None
