"""The tables and views of the database. A change to any of them needs a new VERSION.

Rows that come from an event have the number of that event in `sequence`. Their `id` follows from the session
and the sequence, so it stays the same when the session is read again. The two tables whose names begin with
`agh_` are for `build` only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlite_utils import Database

APPLICATION_ID = 0x61676864  # "aghd"
VERSION = 2
SPACING = 10**9  # the most events that a session can have


def _columns(text: str) -> dict[str, type]:
    """Parse column names, each followed by its type unless that is text."""
    types = {"": str, "integer": int, "real": float}
    columns = (entry.strip().partition(" ") for entry in text.split(","))
    return {name: types[type_name] for name, _, type_name in columns}


_EVENT = "id integer, session_id, turn integer, sequence integer, "
TABLES = {
    "sessions": _columns(
        "id, name, title, kind, agent_name, model, mode, workspace_path, state, phase, stop_reason, "
        "stop_detail, failure_kind, failure_summary, cost_amount real, cost_currency, turns integer, "
        "events integer, acp_session_id, forked_from, archived integer, created_at, updated_at"
    ),
    "turns": _columns(
        "id integer, session_id, turn_id, agent_name, sequence integer, last_sequence integer, started_at, "
        "ended_at, seconds real, stop_reason, error"
    ),
    "messages": _columns(_EVENT + "role, agent_id, timestamp, content, thinking"),
    "tool_calls": _columns(
        _EVENT + "tool_call_id, tool_name, kind, title, started_at, ended_at, seconds real, outcome, input"
    ),
    "tool_results": _columns(_EVENT + "tool_call integer, tool_call_id, tool_name, outcome, timestamp, text"),
    "files": _columns(_EVENT + "tool_call integer, path, action, timestamp"),
    "permissions": _columns(
        "id integer, session_id, turn integer, tool_call integer, request_id, tool_call_id, action, "
        "resource, title, status, decision, option_id, decided_by, created_at, decided_at, seconds real"
    ),
    "questions": _columns(
        "id integer, session_id, turn integer, tool_call integer, request_id, tool_call_id, mode, message, "
        "fields, url, status, decision, answer, decided_by, created_at, decided_at, seconds real"
    ),
    "usage": _columns(
        "id integer, session_id, turn integer, input_tokens integer, output_tokens integer, "
        "thought_tokens integer, cached_read_tokens integer, cached_write_tokens integer, "
        "total_tokens integer, context_used integer, context_size integer, cost_amount real, "
        "cost_currency, timestamp"
    ),
    "markers": _columns(_EVENT + "kind, severity, summary, diagnostic, occurred_at, redacted integer"),
    "failures": _columns(_EVENT + "type, kind, summary, timestamp"),
}
EVENT_TABLES = tuple(name for name, columns in TABLES.items() if "sequence" in columns)
STATE_TABLES = ("permissions", "questions", "usage")  # copied whole from the log's own tables
_SOURCES = _columns("session_id, number integer, home, stamp, start integer, start_at")
_BUILD = _columns("id integer, redacted integer, built_at, agh_version")
_FOREIGN_KEYS = {"session_id": "sessions", "turn": "turns", "tool_call": "tool_calls"}
_FULL_TEXT = {"messages": ("content", "thinking"), "tool_results": ("text",)}
_PLAIN_INDEXES = {"tool_calls": ("tool_name",), "files": ("path",), "sessions": ("created_at",)}

VIEWS = {
    "cost_by_day": """
        SELECT substr(u.timestamp, 1, 10) AS day, t.agent_name, u.cost_currency AS currency,
            count(*) AS turns, sum(u.cost_amount) AS cost, sum(u.input_tokens) AS input_tokens,
            sum(u.output_tokens) AS output_tokens, sum(u.total_tokens) AS total_tokens
        FROM usage AS u LEFT JOIN turns AS t ON t.id = u.turn
        GROUP BY day, t.agent_name, currency ORDER BY day DESC, cost DESC""",
    "slowest_tools": """
        SELECT coalesce(c.tool_name, c.kind, 'unknown') AS tool, t.agent_name, count(*) AS calls,
            sum(c.outcome = 'failed') AS failed, round(avg(c.seconds), 3) AS mean_seconds,
            max(c.seconds) AS max_seconds, round(sum(c.seconds), 3) AS total_seconds
        FROM tool_calls AS c LEFT JOIN turns AS t ON t.id = c.turn
        GROUP BY tool, t.agent_name ORDER BY total_seconds DESC""",
    "failure_kinds": """
        SELECT f.kind, s.agent_name, count(*) AS failures, count(DISTINCT f.session_id) AS sessions,
            max(f.timestamp) AS last_at
        FROM failures AS f JOIN sessions AS s ON s.id = f.session_id
        GROUP BY f.kind, s.agent_name ORDER BY failures DESC""",
    "permission_decisions": """
        SELECT p.action, coalesce(p.decision, p.status) AS decision, p.decided_by, count(*) AS requests,
            round(avg(p.seconds), 3) AS mean_seconds, max(p.created_at) AS last_at
        FROM permissions AS p
        GROUP BY p.action, decision, p.decided_by ORDER BY requests DESC""",
    "question_answers": """
        SELECT s.agent_name, coalesce(q.decision, q.status) AS decision, q.decided_by, count(*) AS questions,
            round(avg(q.seconds), 3) AS mean_seconds, max(q.created_at) AS last_at
        FROM questions AS q JOIN sessions AS s ON s.id = q.session_id
        GROUP BY s.agent_name, decision, q.decided_by ORDER BY questions DESC""",
}


def create(db: Database, *, redacted: bool) -> None:
    """Create everything in an empty database."""
    for name, columns in TABLES.items():
        keys = [(column, other, "id") for column, other in _FOREIGN_KEYS.items() if column in columns]
        table = db.table(name).create(columns, pk="id", foreign_keys=keys)
        if name in EVENT_TABLES:
            table.create_index(["session_id", "sequence"])
        elif "session_id" in columns:
            table.create_index(["session_id"])
        for column in ("turn", "tool_call", *_PLAIN_INDEXES.get(name, ())):
            if column in columns:
                table.create_index([column])
    for name, searched in _FULL_TEXT.items():
        db.table(name).enable_fts(searched, tokenize="unicode61 remove_diacritics 2", create_triggers=True)
    db.table("agh_sources").create(_SOURCES, pk="session_id").create_index(["number"], unique=True)
    db.table("agh_build").create(_BUILD, pk="id").insert({"id": 1, "redacted": int(redacted)})
    for name, sql in VIEWS.items():
        db.create_view(name, sql)
    db.conn.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.conn.execute(f"PRAGMA user_version = {VERSION}")


def optimize(db: Database) -> None:
    """Merge the full-text indexes, after many rows were added."""
    for name in _FULL_TEXT:
        db.conn.execute(f"INSERT INTO {name}_fts({name}_fts) VALUES ('optimize')")
