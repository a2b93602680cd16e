"""`agh db query`"""

from __future__ import annotations

import csv
import io
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any

import click
import orjson

from agh.cli.db.common import find_database, report_damage
from agh.console import terminal
from agh.console.output import columns, write_lines, write_text, write_utf8
from agh.console.when import parse_duration
from agh.errors import Usage
from agh.sessions.database.query import Query

CELL = 60  # characters of a cell of a table on a terminal
BATCH = 500

Rows = Iterable[tuple[Any, ...]]


@click.command(
    "query",
    epilog="\b\nExamples:\n  agh db query 'SELECT * FROM slowest_tools LIMIT 5' --table\n"
    "  agh db query agh.db 'SELECT day, cost FROM cost_by_day' --csv > cost.csv\n"
    '  agh db query "SELECT session_id FROM messages_fts JOIN messages ON id = rowid'
    " WHERE messages_fts MATCH 'login'\" --nl",
)
@click.argument("words", metavar="[FILE] SQL", nargs=-1, required=True)
@click.option("--table", "form", flag_value="table", help="Print aligned columns (default on a terminal).")
@click.option("--json", "form", flag_value="json", help="Print one JSON array (default in a pipe).")
@click.option("--nl", "form", flag_value="nl", help="Print one JSON object per line.")
@click.option("--csv", "form", flag_value="csv", help="Print comma-separated values with a header.")
@click.option("--timeout", metavar="SPAN", help="Give up after this time: 30s, 5m. [default: no limit]")
def query_command(words: tuple[str, ...], form: str | None, timeout: str | None) -> None:
    """Run one SQL query on a database and print the rows.

    FILE is a database from `agh db build`. Without FILE, the query runs on all sessions: agh first updates
    its own database in the cache directory. The database is opened read-only.
    """
    if len(words) > 2:
        raise Usage("give one query, in quotes", hint="agh db query [FILE] 'SELECT …'")
    *files, sql = words
    seconds = parse_duration(timeout, "--timeout") if timeout else None
    path, damaged = find_database(files[0] if files else None)
    query = Query(path, sql, seconds)
    WRITERS[form or ("table" if terminal.is_terminal() else "json")](query.columns, query.rows())
    report_damage(damaged)


def _write_table(names: list[str], rows: Rows) -> None:
    width = CELL if terminal.is_terminal() else 10_000
    cells = [
        [terminal.one_line("" if value is None else _text(value), width) for value in row] for row in rows
    ]
    if names:
        write_text(columns([terminal.one_line(name, width) for name in names], cells))


def _write_csv(names: list[str], rows: Rows) -> None:
    for batch in _batches(chain([tuple(names)] if names else [], rows)):
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(map(_plain_row, batch))
        if terminal.is_terminal():
            write_text(terminal.clean(text.getvalue()))
        else:
            write_utf8(text.getvalue())


def _write_nl(names: list[str], rows: Rows) -> None:
    for batch in _batches(rows):
        write_lines([_object(names, row) for row in batch])


def _write_json(names: list[str], rows: Rows) -> None:
    opening = "["
    clean = terminal.clean_json if terminal.is_terminal() else str
    for batch in _batches(rows):
        write_utf8(clean(opening + ",\n ".join(_object(names, row) for row in batch)))
        opening = ",\n "
    write_utf8("[]\n" if opening == "[" else "]\n")


WRITERS: dict[str, Callable[[list[str], Rows], None]] = {
    "table": _write_table,
    "csv": _write_csv,
    "nl": _write_nl,
    "json": _write_json,
}


def _batches(rows: Rows) -> Iterator[list[tuple[Any, ...]]]:
    iterator = iter(rows)
    while batch := list(islice(iterator, BATCH)):
        yield batch


def _object(names: list[str], row: tuple[Any, ...]) -> str:
    values = (
        {"$base64": True, "encoded": b64encode(value).decode()} if isinstance(value, bytes) else value
        for value in row
    )
    return orjson.dumps(dict(zip(names, values, strict=True))).decode()


def _plain_row(row: tuple[Any, ...]) -> list[Any]:
    return [b64encode(value).decode() if isinstance(value, bytes) else value for value in row]


def _text(value: Any) -> str:
    return b64encode(value).decode() if isinstance(value, bytes) else str(value)
