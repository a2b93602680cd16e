"""What Datasette shows beside the data: titles, descriptions, facets and ready-made queries. Pure."""

from __future__ import annotations

from typing import Any

from agh.sessions.database.schema import TABLES, VIEWS

_TABLES: dict[str, dict[str, Any]] = {
    "sessions": {
        "description": "One row per session, as `agh session status` shows it.",
        "label_column": "name",
        "sort_desc": "updated_at",
        "facets": ["agent_name", "phase", "workspace_path"],
    },
    "turns": {
        "description": "One prompt and its outcome.",
        "label_column": "turn_id",
        "sort_desc": "started_at",
        "facets": ["agent_name", "stop_reason"],
    },
    "messages": {
        "description": "What the user and the agent said; all chunks of a message are one row.",
        "sort_desc": "timestamp",
        "facets": ["role"],
    },
    "tool_calls": {
        "description": "The tools that the agent used, with their input and how long they took.",
        "label_column": "title",
        "sort_desc": "started_at",
        "facets": ["tool_name", "outcome"],
    },
    "tool_results": {
        "description": "What the tools returned, as text.",
        "sort_desc": "timestamp",
        "facets": ["tool_name", "outcome"],
    },
    "files": {
        "description": "The files that tool calls named, each once per call.",
        "sort_desc": "timestamp",
        "facets": ["action"],
    },
    "permissions": {
        "description": "Permission requests of agents and how they were decided.",
        "sort_desc": "created_at",
        "facets": ["action", "decision", "decided_by"],
    },
    "questions": {
        "description": "Questions that agents asked the user, and the answers, as JSON.",
        "label_column": "message",
        "sort_desc": "created_at",
        "facets": ["decision", "decided_by"],
    },
    "usage": {"description": "Tokens and cost of each turn, as the agent reported them."},
    "markers": {"description": "Turning points, such as a dropped prompt.", "facets": ["kind", "severity"]},
    "failures": {
        "description": "Turns that failed, and sessions that stopped because of a failure.",
        "facets": ["kind"],
    },
    "agh_sources": {"hidden": True},
    "agh_build": {"hidden": True},
}
_VIEWS = {
    "cost_by_day": "What each agent cost and how many tokens it used, day by day (UTC).",
    "slowest_tools": "How often each tool was called, how often it failed and how long it took.",
    "failure_kinds": "Which kinds of failure occurred, with which agent, and when each last occurred.",
    "permission_decisions": "What was allowed and denied, by whom, and after how long.",
    "question_answers": "How many questions each agent asked, what became of them, and after how long.",
}
_COLUMNS = {
    "turn": "The turn it belongs to; empty for what happened between turns.",
    "sequence": "The number of the event in the session's log.",
    "seconds": "How long it took.",
}
_SEARCH = """
SELECT 'message' AS found_in, m.session_id, m.timestamp, snippet(messages_fts, -1, '[', ']', '…', 24) AS text
FROM messages_fts JOIN messages AS m ON m.id = messages_fts.rowid WHERE messages_fts MATCH :words
UNION ALL
SELECT 'tool result', r.session_id, r.timestamp, snippet(tool_results_fts, 0, '[', ']', '…', 24)
FROM tool_results_fts JOIN tool_results AS r ON r.id = tool_results_fts.rowid
WHERE tool_results_fts MATCH :words
ORDER BY 3 DESC LIMIT 100
"""


def metadata(name: str) -> dict[str, Any]:
    """Return the metadata for a database that Datasette calls `name`: its file's name without the suffix."""
    tables = {table: {**fields} for table, fields in _TABLES.items()}
    for table, columns in TABLES.items():
        described = {column: text for column, text in _COLUMNS.items() if column in columns}
        if described:
            tables[table]["columns"] = described
    for view in VIEWS:
        tables[view] = {"description": _VIEWS[view]}
    search = {"sql": _SEARCH.strip(), "title": "Search messages and tool results"}
    return {
        "title": "Sessions of coding agents",
        "databases": {name: {"tables": tables, "queries": {"search": search}}},
    }
