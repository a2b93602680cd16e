"""MCP servers: from how a user writes them in settings to how the protocol expects them. Pure."""

from __future__ import annotations

from typing import Any

_STDIO, _REMOTE = {"name", "command", "args", "env"}, {"name", "type", "url", "headers"}


def read_servers(tables: Any) -> list[dict[str, Any]]:
    """Read servers from tables with `name` and `command`, or `name`, `type` (http, sse) and `url`."""
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ValueError("MCP servers must be a list of tables: [[mcp_servers]]")
    return [_read_server(table, number) for number, table in enumerate(tables, 1)]


def _read_server(table: dict[str, Any], number: int) -> dict[str, Any]:
    allowed_keys = _REMOTE if "url" in table else _STDIO
    unknown_keys = set(table) - allowed_keys
    if unknown_keys:
        allowed = ", ".join(sorted(allowed_keys))
        raise ValueError(f"server {number}: unknown key {sorted(unknown_keys)[0]!r}; allowed: {allowed}")
    if not isinstance(table.get("name"), str):
        raise ValueError(f"server {number} has no name")
    if "url" in table:
        if table.get("type") not in ("http", "sse"):
            raise ValueError(f"server {number}: type must be http or sse")
        return {
            "type": table["type"],
            "name": table["name"],
            "url": str(table["url"]),
            "headers": _read_pairs(table.get("headers"), number),
        }
    if not isinstance(table.get("command"), str) or not isinstance(table.get("args", []), list):
        raise ValueError(f"server {number} needs a command, and a list of args if it has any")
    return {
        "name": table["name"],
        "command": table["command"],
        "args": list(map(str, table.get("args", []))),
        "env": _read_pairs(table.get("env"), number),
    }


def _read_pairs(table: Any, number: int) -> list[dict[str, str]]:
    if not isinstance(table or {}, dict):
        raise ValueError(f"server {number}: env and headers must be tables")
    return [{"name": str(key), "value": str(value)} for key, value in (table or {}).items()]
