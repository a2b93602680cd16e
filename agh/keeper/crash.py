"""Crash bundles: everything about a failure in a private, redacted, bounded file that can be shared."""

from __future__ import annotations

import os
import time
from typing import Any

import orjson

from agh.core.events import Row
from agh.core.redaction.redact import LONGEST, Redactor
from agh.core.redaction.redacted import redacted_rows
from agh.errors import AghError
from agh.home import Session, ensure_home, make_private_dir
from agh.keeper.session import Live
from agh.store.reader import Reader

SCHEMA = "agh.session_crash_bundle.v1"
LAST_EVENTS, EVENT_TEXT, STDERR = 20, 4_000, 16_000
EVENTS_BEFORE = 200  # may hold the start of a secret that continues in the last events
LONG_EVENT = 32_000  # characters
MOST_ITEMS = 1_000


def write_bundle(live: Live) -> str | None:
    """Write the bundle and return its path, or None if that fails: the session must end all the same."""
    failure, agent = live.ending.failure, live.agent.connection
    if failure is None or agent is None:
        return None
    exit_status = agent.process.exit or {}
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
            "exit_code": exit_status.get("exit"),
            "signal": exit_status.get("signal"),
        },
        "error": live.ending.decision[1] if live.ending.decision else None,
    }
    clean = redactor.json(bundle)
    clean["stderr"] = agent.stderr_text(STDERR)
    clean["stdout"] = agent.stray_lines()
    try:
        clean["last_events"] = _last_events(live.session, redactor)
    except AghError:  # the rest is useful even if the log cannot be read
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


def _last_events(session: Session, redactor: Redactor) -> list[dict[str, Any]]:
    """Return the newest events, redacted together with some before them, then shortened."""
    with Reader(session) as reader:
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
    """Return the row with the middle of its long texts left out."""
    if len(row.content) <= LONG_EVENT:
        return row
    return row._replace(content=orjson.dumps(_without_middle(row.parsed(), redactor)).decode())


def _without_middle(value: Any, redactor: Redactor) -> Any:
    if isinstance(value, str) and len(value) > LONG_EVENT:
        # The end is there only for a secret that continues in the next chunk; it is always cut off again.
        return redactor.beginning(value, EVENT_TEXT).ljust(EVENT_TEXT, "…") + value[-LONGEST:]
    if isinstance(value, list):
        return [_without_middle(item, redactor) for item in value[:MOST_ITEMS]]
    if isinstance(value, dict):
        items = list(value.items())[:MOST_ITEMS]
        return {key[:LONG_EVENT]: _without_middle(item, redactor) for key, item in items}
    return value
