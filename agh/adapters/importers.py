"""The built-in import formats: what `agh session export` wrote as jsonl or db.

Promises: the file is never changed; invalid data raises a ValueError that says where it is, either at once
or while the rows are read. A database from someone else can run code in SQLite, so only plain tables are
read, never views or virtual tables.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import orjson

from agh.core.acp.json_text import find_excess
from agh.core.acp.long_text import LONG, loads
from agh.core.acp.members import member
from agh.core.events import Row
from agh.core.exchange import (
    ADDED_LATER,
    SCHEMA,
    TABLES,
    Imported,
    Importer,
    LongRow,
    Record,
    TableRow,
    check_row,
)

LINE = 128 << 20  # bytes; an event contains the longest kind of frame twice
MAX_VALUES, MAX_DEPTH = 2_000_000, 250  # of one line; the limits on what an agent sends are lower
_EVENT = ("sequence", "turn_id", "type", "agent_name", "timestamp")


def read_jsonl(path: str) -> Imported:
    """Read the session in a jsonl export; its rows are read later, one by one."""
    with open(path, "rb") as file:
        head = _parsed(file.readline(LINE + 1), 1)
    if head.get("schema") != SCHEMA:
        raise ValueError(f"line 1 does not name the format {SCHEMA}")
    session, counts = head.get("session"), head.get("counts")
    if not isinstance(session, dict) or not isinstance(counts, dict):
        raise ValueError("line 1 does not describe a session")
    return Imported(session, _records(path, counts))


def _records(path: str, counts: dict[str, Any]) -> Iterator[Record]:
    seen = dict.fromkeys(("events", *TABLES), 0)
    with open(path, "rb") as file:
        file.readline(LINE + 1)
        number = 1
        while data := file.readline(LINE + 1):
            number += 1
            value = _parsed(data, number)
            if "table" in value:
                if value["table"] not in TABLES or not isinstance(value.get("row"), dict):
                    raise ValueError(f"line {number}: it is not a row of a known table")
                seen[value["table"]] += 1
                yield TableRow(value["table"], value["row"])
                continue
            if missing := [key for key in (*_EVENT, "content") if key not in value]:
                raise ValueError(f"line {number}: the event has no {missing[0]}")
            seen["events"] += 1
            sequence, turn_id, type, agent_name, at = (value[key] for key in _EVENT)
            del value  # free a long line before its row is checked and written
            content = _content(data)
            del data
            if len(content) > LONG:
                yield check_row(LongRow(sequence, turn_id, type, agent_name, content, at))
            else:
                yield check_row(Row(sequence, turn_id, type, agent_name, content.decode(), at))
    for table, count in seen.items():
        if counts.get(table, 0) != count:
            raise ValueError(f"it is incomplete: {count} of {counts.get(table)} rows of {table}")


def _parsed(data: bytes, number: int) -> dict[str, Any]:
    if len(data) > LINE:
        raise ValueError(f"line {number}: it is longer than {LINE >> 20} MB")
    if reason := find_excess(data, MAX_VALUES, MAX_DEPTH):
        raise ValueError(f"line {number}: {reason}")
    try:
        value = loads(data)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"line {number}: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f"line {number}: not a JSON object")
    return value


def _content(line: bytes) -> bytes:
    """Return the text of the content as it stands: parsing it could change a long number."""
    span = member(line, 0, "content")
    assert span is not None
    return line[slice(*span)]


def read_database(path: str) -> Imported:
    """Read the session in a db export; its rows are read later, one by one."""
    with _opened(path) as db:
        if (verdict := db.execute("PRAGMA quick_check(1)").fetchone()) != ("ok",):
            raise ValueError(f"the database is damaged: {verdict[0]}")
        plain = {
            name
            for name, sql in db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
            if not str(sql).upper().startswith("CREATE VIRTUAL")
        }
        required = ("session", "events", *(table for table in TABLES if table not in ADDED_LATER))
        if missing := [name for name in required if name not in plain]:
            raise ValueError(f"it has no table {missing[0]}: it is not an exported session")
        described = db.execute("SELECT schema, meta FROM session LIMIT 2").fetchall()
        if len(described) != 1 or described[0][0] != SCHEMA:
            raise ValueError(f"the table `session` does not name the format {SCHEMA}")
        session = _parsed(str(described[0][1]).encode(), 1)
    return Imported(session, _database_records(path, [table for table in TABLES if table in plain]))


def _database_records(path: str, tables: list[str]) -> Iterator[Record]:
    with _opened(path) as db:
        content = f"iif(length(content) > {LONG}, CAST(content AS BLOB), content)"
        columns = f"sequence, turn_id, type, agent_name, {content}, timestamp"
        for row in db.execute(f"SELECT {columns} FROM events ORDER BY sequence"):
            if isinstance(row[4], bytes):
                yield check_row(LongRow._make(row))
            else:
                yield check_row(Row._make(row))
        for table in tables:
            cursor = db.execute(f"SELECT * FROM {table} ORDER BY rowid")
            names = [column[0] for column in cursor.description]
            for row in cursor:
                yield TableRow(table, dict(zip(names, row, strict=True)))


@contextmanager
def _opened(path: str) -> Iterator[sqlite3.Connection]:
    db = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, isolation_level=None)
    try:
        db.execute("PRAGMA trusted_schema = OFF")
        db.execute("PRAGMA cell_size_check = ON")
        yield db
    except (sqlite3.Error, UnicodeError) as error:
        raise ValueError(str(error)) from None
    finally:
        db.close()


def _is_jsonl(path: str, head: bytes) -> bool:
    return head.lstrip().startswith(b"{") and SCHEMA.encode() in head[:200]


def _is_database(path: str, head: bytes) -> bool:
    return head.startswith(b"SQLite format 3\0") and head[68:72] == b"agh!"


IMPORTERS = (
    Importer("jsonl", "a file from `agh session export -o jsonl`", _is_jsonl, read_jsonl),
    Importer("db", "a file from `agh session export -o db`", _is_database, read_database),
)
