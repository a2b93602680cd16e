"""Crash bundles: what is known of a failure, in one private, redacted, bounded file that can be shown."""

from __future__ import annotations

import os
import time
from typing import Any

import orjson

from agh.core.events import Row
from agh.core.redact import LONGEST, Redactor
from agh.core.redacted import redacted_rows
from agh.errors import AghError
from agh.home import ensure_home, make_private_dir
from agh.keeper.session import Live
from agh.store.reader import Reader

SCHEMA = "agh.session_crash_bundle.v1"
LAST_EVENTS, EVENT_TEXT, STDERR = 20, 4_000, 16_000
EVENTS_BEFORE = 200  # that may hold the beginning of a secret that goes on in the last ones
LONG_EVENT = 32_000  # characters
MOST_ITEMS = 1_000


def write_bundle(live: Live) -> str | None:
    """The path of the bundle; None when it could not be written (the session's end must not fail on it)."""
    failure, agent = live.failure, live.agent
    if failure is None or agent is None:
        return None
    ended = agent.process.exit or {}
    redactor = agent.redactor
    bundle = {
        "schema": SCHEMA,
        "session": {key: live.meta.get(key) for key in ("id", "name", "state", "workspace_path", "turns")},
        "agent": {"name": agent.name, "caps": live.meta.get("acp_caps")},
        "failure": {"kind": failure["kind"], "summary": failure["summary"]},
        "process": {
            "pid": agent.process.pid,
            "argv": agent.argv,
            "cwd": agent.cwd,
            "started_at": (live.meta.get("keeper") or {}).get("started_at"),
            "exit_code": ended.get("exit"),
            "signal": ended.get("signal"),
        },
        "error": live.ending[1] if live.ending else None,
    }
    clean = redactor.json(bundle)
    clean["stderr"] = agent.stderr_text(STDERR)
    try:
        clean["last_events"] = _last_events(live.directory, redactor)
    except AghError:  # a log that cannot be read is no reason to lose the rest
        clean["last_events"] = []
    try:
        folder = os.path.join(ensure_home(), "logs", "crash-bundles")
        make_private_dir(os.path.dirname(folder))
        make_private_dir(folder)
        path = os.path.join(folder, f"{live.session_id}-{failure['kind']}-{time.time_ns()}.json")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(orjson.dumps(clean, option=orjson.OPT_INDENT_2))
    except OSError:
        return None
    return path


def _last_events(directory: str, redactor: Redactor) -> list[dict[str, Any]]:
    """Return the newest events, redacted together with some before them, and then cut."""
    with Reader(directory) as reader:
        last = reader.last_sequence()
        first = max(1, last - LAST_EVENTS - EVENTS_BEFORE + 1)
        rows = [_shortened(row, redactor) for row in reader.rows(after=first - 1)]
    return [
        {
            "sequence": row.sequence,
            "type": row.type,
            "timestamp": row.timestamp,
            "content": row.content[:EVENT_TEXT],
        }
        for row in list(redacted_rows(rows, redactor))[-LAST_EVENTS:]
    ]


def _shortened(row: Row, redactor: Redactor) -> Row:
    """Return the row with the middle of what is long in it left out."""
    if len(row.content) <= LONG_EVENT:
        return row
    return row._replace(content=orjson.dumps(_without_middle(row.parsed(), redactor)).decode())


def _without_middle(value: Any, redactor: Redactor) -> Any:
    if isinstance(value, str) and len(value) > LONG_EVENT:
        # The end is only there for what may follow it in the next chunk: it is always cut off again.
        return redactor.beginning(value, EVENT_TEXT).ljust(EVENT_TEXT, "…") + value[-LONGEST:]
    if isinstance(value, list):
        return [_without_middle(item, redactor) for item in value[:MOST_ITEMS]]
    if isinstance(value, dict):
        items = list(value.items())[:MOST_ITEMS]
        return {key[:LONG_EVENT]: _without_middle(item, redactor) for key, item in items}
    return value
