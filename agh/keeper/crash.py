"""Crash bundles: what is known of a failure, in one private, redacted, bounded file that can be shown."""

from __future__ import annotations

import os
import time

import orjson

from agh.core.redact import redactor
from agh.errors import AghError
from agh.home import ensure_home, make_private_dir
from agh.keeper.live import Live
from agh.store.reader import EVERYTHING, Reader

SCHEMA = "agh.session_crash_bundle.v1"
LAST_EVENTS, EVENT_TEXT, STDERR = 20, 4_000, 16_000


def write_bundle(live: Live) -> str | None:
    """The path of the bundle; None when it could not be written (the session's end must not fail on it)."""
    failure, agent = live.failure, live.agent
    if failure is None or agent is None:
        return None
    ended = agent.process.exit or {}
    try:
        with Reader(live.directory) as reader:
            last = reader.newest(EVERYTHING, LAST_EVENTS)
    except AghError:
        return None
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
        "stderr": agent.stderr_text()[-STDERR:],
        "last_events": [
            {
                "sequence": row.sequence,
                "type": row.type,
                "timestamp": row.timestamp,
                "content": row.content[:EVENT_TEXT],
            }
            for row in last
        ],
    }
    clean = redactor(live.environ).json(bundle)
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
