"""What sqlite-utils costs next to plain sqlite3, by CPU time: the figures of docs/design.md."""

from __future__ import annotations

import shutil
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from agh.core.events import Draft, Row
from agh.home import Session
from agh.store import schema
from agh.store.bulk import Bulk
from agh.store.reader import Reader
from agh.store.rows import INSERT_EVENT, insert
from tests.bench import data
from tests.bench.measure import AGH, Figure, Taken, interleaved, taken

BATCH = 2_000
USAGE = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3, "cost_amount": 0.5, "timestamp": "now"}


def writing(place: Path, quick: bool) -> Iterator[Figure]:
    count, rounds = (200, 1) if quick else (100_000, 5)
    source = data.long_log(place, count)
    plain, utils = interleaved(rounds, lambda: _imported("sqlite3"), lambda: _imported("sqlite_utils"))
    yield Figure("import sqlite_utils", utils.cpu * 1000, "ms", note=f"sqlite3 {plain.cpu * 1000:.0f} ms")
    single = count // 10
    plain, utils = interleaved(rounds, lambda: _cpu(_rows, single), lambda: _cpu(_utils_rows, single))
    values = [used.cpu / single * 1e6 for used in (utils, plain)]
    yield Figure("a row with sqlite-utils", values[0], "µs", note=f"sqlite3 {values[1]:.1f} µs")
    with Reader(Session.at(source)) as reader:
        rows = list(reader.rows())
    plain, utils = interleaved(rounds, lambda: _cpu(_copy, rows), lambda: _cpu(_utils_copy, rows))
    note = f"sqlite3, as fork does, {plain.cpu:.2f} s; {count:,} events"
    yield Figure("a copied log with sqlite-utils", utils.cpu, "s", note=note)
    file = str(place.parent / "export.jsonl")
    taken((AGH, "session", "export", data.ROWS_ID, "--to", file))
    shutil.rmtree(source)
    used = taken((AGH, "session", "import", file))
    yield Figure("session import", used.cpu, "s", note=f"{count:,} events; {used.wall:.1f} s by the clock")


def _imported(module: str) -> Taken:
    return taken((sys.executable, "-c", f"import {module}"))


def _cpu(work: Callable[[sqlite3.Connection, Any], None], argument: Any) -> Taken:
    """Run the work on an empty log in memory, and return what it took."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        schema.create(connection)
        wall, cpu = time.perf_counter(), time.process_time()
        work(connection, argument)
        return Taken(time.perf_counter() - wall, time.process_time() - cpu)


def _rows(connection: sqlite3.Connection, count: int) -> None:
    for number in range(count):
        connection.execute("BEGIN")
        insert(connection, "token_usage", {"turn_id": f"turn-{number}", **USAGE})
        connection.execute("COMMIT")


def _utils_rows(connection: sqlite3.Connection, count: int) -> None:
    table = Database(connection, execute_plugins=False).table("token_usage")
    for number in range(count):
        connection.execute("BEGIN")
        table.insert({"turn_id": f"turn-{number}", **USAGE})
        connection.execute("COMMIT")


def _copy(connection: sqlite3.Connection, rows: list[Row]) -> None:
    for start in range(0, len(rows), BATCH):
        connection.execute("BEGIN")
        drafts = [
            Draft(row.type, row.turn_id, row.content, row.timestamp) for row in rows[start : start + BATCH]
        ]
        numbered = enumerate(drafts, start + 1)
        connection.executemany(
            INSERT_EVENT,
            (
                (n, draft.turn_id, draft.type, "general", draft.content, draft.timestamp)
                for n, draft in numbered
            ),
        )
        connection.execute("COMMIT")


def _utils_copy(connection: sqlite3.Connection, rows: list[Row]) -> None:
    connection.execute("BEGIN")
    bulk = Bulk(connection)
    for row in rows:
        bulk.add_event(row)
    bulk.flush()
    connection.execute("COMMIT")
