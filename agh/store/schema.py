"""The schema of events.db: numbered migrations, and a snapshot of their result.

A new log is created from the snapshot, `schema.sql`, with plain sqlite3; an older log is upgraded with
the migrations it lacks, with sqlite-utils. A test checks that both give the same schema. `user_version`
counts the migrations applied; a log with more than we know is refused.

Promises kept by the schema itself: `sequence` starts at 1 and has no gaps; events are never updated or
deleted.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlite_utils import Database

APPLICATION_ID = 0x61676821  # "agh!"
SNAPSHOT = os.path.join(os.path.dirname(__file__), "schema.sql")

# All events but the stream of chunks, so that turn bounds, markers and lifecycle events are found without
# a scan. A query must repeat these terms for SQLite to use the index. They are not one NOT IN (...),
# because SQLite would build a table of its values for every row inserted.
LANDMARK = " AND ".join(
    f"type <> '{event_type}'"
    for event_type in ("agent_message", "thought", "tool_call", "tool_result", "usage", "runtime_progress")
)

# Whether a log has questions: one that an earlier version wrote lacks the table until it is written to.
HAS_QUESTIONS = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'questions'"

Migration = Callable[["Database"], None]
MIGRATIONS: list[Migration] = []


def migration(step: Migration) -> Migration:
    """Register the next migration."""
    MIGRATIONS.append(step)
    return step


@migration
def create_tables(db: Database) -> None:
    db.execute(
        """
        CREATE TABLE "events" (
           "sequence" INTEGER PRIMARY KEY,
           "id" TEXT GENERATED ALWAYS AS (printf('evt-%06d', "sequence")) VIRTUAL,
           "turn_id" TEXT NOT NULL,
           "type" TEXT NOT NULL,
           "agent_name" TEXT NOT NULL,
           "content" TEXT NOT NULL,
           "timestamp" TEXT NOT NULL
        )
        """
    )
    db.execute(
        """
        CREATE TRIGGER events_have_no_gaps BEFORE INSERT ON events
        WHEN NEW.sequence IS NOT
         coalesce((SELECT sequence FROM events ORDER BY sequence DESC LIMIT 1), 0) + 1
        BEGIN SELECT RAISE(ABORT, 'event sequence must follow the last one'); END
        """
    )
    for verb in ("UPDATE", "DELETE"):
        db.execute(
            f"CREATE TRIGGER events_no_{verb.lower()} BEFORE {verb} ON events "
            "BEGIN SELECT RAISE(ABORT, 'events are append-only'); END"
        )
    db.execute(f"CREATE INDEX events_landmarks ON events (type, turn_id) WHERE {LANDMARK}")
    db.table("milestones").create({"sequence": int, "messages": int}, pk="sequence", not_null={"messages"})
    db.table("token_usage").create(
        {
            "turn_id": str,
            "input_tokens": int,
            "output_tokens": int,
            "thought_tokens": int,
            "cached_read_tokens": int,
            "cached_write_tokens": int,
            "total_tokens": int,
            "context_used": int,
            "context_size": int,
            "cost_amount": float,
            "cost_currency": str,
            "timestamp": str,
        },
        pk="turn_id",
        not_null={"turn_id", "timestamp"},
    )
    db.table("hook_runs").create(
        {
            "id": int,
            "event": str,
            "hook": str,
            "source": str,
            "required": int,
            "started_at": str,
            "duration_ms": int,
            "outcome": str,
            "exit_code": int,
            "output": str,
        },
        pk="id",
        not_null={"event", "hook", "started_at", "outcome"},
    )
    inputs = db.table("inputs").create(
        {
            "id": int,
            "generation": int,
            "mode": str,
            "status": str,
            "prompt": str,
            "idempotency_key": str,
            "turn_id": str,
            "detail": str,
            "created_at": str,
            "updated_at": str,
        },
        pk="id",
        not_null={"generation", "mode", "status", "prompt", "turn_id", "created_at", "updated_at"},
    )
    inputs.create_index(["idempotency_key"], unique=True)
    inputs.create_index(["status"])
    permissions = db.table("permissions").create(
        {
            "request_id": str,
            "turn_id": str,
            "tool_call_id": str,
            "status": str,
            "action": str,
            "resource": str,
            "title": str,
            "request": str,
            "decision": str,
            "option_id": str,
            "decided_by": str,
            "created_at": str,
            "decided_at": str,
        },
        pk="request_id",
        not_null={"turn_id", "status", "action", "request", "created_at"},
    )
    permissions.create_index(["status"])


@migration
def count_retries(db: Database) -> None:
    db.table("inputs").add_column("retries", int, not_null_default=0)


@migration
def keep_questions(db: Database) -> None:
    questions = db.table("questions").create(
        {
            "request_id": str,
            "turn_id": str,
            "tool_call_id": str,
            "status": str,
            "message": str,
            "request": str,
            "decision": str,
            "answer": str,
            "decided_by": str,
            "created_at": str,
            "decided_at": str,
        },
        pk="request_id",
        not_null={"turn_id", "status", "message", "request", "created_at"},
    )
    questions.create_index(["status"])


@migration
def park_inputs(db: Database) -> None:
    db.table("inputs").add_column("park", int, not_null_default=0)


VERSION = len(MIGRATIONS)
QUESTIONS_SINCE = MIGRATIONS.index(keep_questions) + 1  # an older log has none until it is written to


def create(connection: sqlite3.Connection) -> None:
    """Create the newest schema in an empty database."""
    with open(SNAPSHOT, encoding="utf-8") as snapshot:
        connection.executescript(snapshot.read())


def upgrade(connection: sqlite3.Connection) -> None:
    """Apply the migrations that the log lacks, each in a transaction that also sets its number."""
    from sqlite_utils import Database

    db = Database(connection, execute_plugins=False)
    (applied,) = connection.execute("PRAGMA user_version").fetchone()
    for number, step in enumerate(MIGRATIONS[applied:], start=applied + 1):
        connection.execute("BEGIN IMMEDIATE")
        step(db)
        connection.execute(f"PRAGMA user_version = {number}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("COMMIT")


def snapshot() -> str:
    """Return the SQL that `schema.sql` must contain: the result of all migrations."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    upgrade(connection)
    cursor = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid")
    statements = [f"{' '.join(sql.split())};" for (sql,) in cursor]
    connection.close()
    return "\n".join(
        [
            "-- Made from the migrations by `python -m agh.store.schema`; a test holds it to them.",
            "BEGIN;",
            *statements,
            f"PRAGMA application_id = {APPLICATION_ID};",
            f"PRAGMA user_version = {VERSION};",
            "COMMIT;",
            "",
        ]
    )


if __name__ == "__main__":
    with open(SNAPSHOT, "w", encoding="utf-8") as target:
        target.write(snapshot())
