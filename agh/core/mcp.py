"""MCP servers as a user writes them in settings, and as the protocol wants them. Pure."""

from __future__ import annotations

from typing import Any

_STDIO, _REMOTE = {"name", "command", "args", "env"}, {"name", "type", "url", "headers"}


def read_servers(given: Any) -> list[dict[str, Any]]:
    """Servers from a list of tables: `name` and `command`, or `name`, `type` (http, sse) and `url`."""
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise ValueError("MCP servers are a list of tables: [[mcp_servers]]")
    return [_server(one, number) for number, one in enumerate(given, 1)]


def _server(given: dict[str, Any], number: int) -> dict[str, Any]:
    known = _REMOTE if "url" in given else _STDIO
    unknown = set(given) - known
    if unknown:
        raise ValueError(
            f"server {number}: unknown key {sorted(unknown)[0]!r}; known are {', '.join(sorted(known))}"
        )
    if not isinstance(given.get("name"), str):
        raise ValueError(f"server {number} has no name")
    if "url" in given:
        if given.get("type") not in ("http", "sse"):
            raise ValueError(f"server {number}: type is http or sse")
        return {
            "type": given["type"],
            "name": given["name"],
            "url": str(given["url"]),
            "headers": _pairs(given.get("headers"), number),
        }
    if not isinstance(given.get("command"), str) or not isinstance(given.get("args", []), list):
        raise ValueError(f"server {number} needs a command, and a list of args if it has any")
    return {
        "name": given["name"],
        "command": given["command"],
        "args": list(map(str, given.get("args", []))),
        "env": _pairs(given.get("env"), number),
    }


def _pairs(given: Any, number: int) -> list[dict[str, str]]:
    if not isinstance(given or {}, dict):
        raise ValueError(f"server {number}: env and headers are tables")
    return [{"name": str(key), "value": str(value)} for key, value in (given or {}).items()]
