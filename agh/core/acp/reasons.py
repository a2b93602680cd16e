"""Why something failed, in an agent's own words: from its error, or from its last lines. Pure.

The message of an error is often no more than "Internal error"; what went wrong is somewhere in its `data`.
The last line of a program that has died is often the end of a stack trace; the cause is further up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

MAX_TEXT = 2_000  # characters
MAX_LINES = 20
_LINE = 300  # characters
_DEPTH = 8
_REASON_KEYS = (
    *("details", "detail", "message", "error", "reason", "cause", "description", "errormessage"),
    *("error_message", "errorkind", "error_kind", "stderr", "title", "hint"),
)
_AUTH_REQUIRED = -32000
_AUTH_KINDS = ("authentication_failed", "authentication_error", "oauth_org_not_allowed", "unauthorized")
_AUTH = (
    r"(?i)\b(?:invalid|incorrect|missing|expired|no)\b[\w ]{0,20}\b"
    r"(?:api[ _-]?key|x-api-key|credentials|(?:access|auth|oauth|bearer) token)\b"
    r"|\b(?:api[ _-]?key|credentials?|token) (?:is |was )?(?:not valid|invalid|rejected|refused|expired)"
    r"|authentication[ _](?:required|failed|error)|unauthori[sz]ed|not (?:logged|signed) in"
    r"|(?:please|must|need to) (?:run /)?(?:log ?in|login|sign in|authenticate)"
    r"|\b(?:status|http|code|error)\b\W{0,3}401\b"
)
_MCP = r"(?i)\bmcp\b"

_NOISE = re.compile(
    r"^\s*(?:at |\^|[\]})]|throw |node:|File \"|Node\.js v|\w+: ['\[{]|code: )|complete log of this run"
    r"|^npm (?:error|ERR!)\s*(?:code\b.*|errno\b.*|syscall\b.*|\d*\s*)$|^\s*[-=~*]+\s*$"
)
_NAMED_ERROR = re.compile(
    r"\b[A-Z]\w*(?:Error|Exception)\b(?: \[\w+\])?:|^(?:error|fatal|panic)(?:\[\w+\])?[: ]", re.I
)
_ANY_ERROR = re.compile(
    r"(?i)error|fatal|panic|cannot|can't|could not|not found|no such|denied|refused|invalid|missing"
    r"|unsupported|required|failed|unauthori[sz]ed|unknown"
)
_NOT_INSTALLED = re.compile(
    r"(?i)\be404\b|404 not found|is not in this registry|cannot find (?:module|package)|modulenotfounderror"
    r"|no module named|command not found|no such file|unsupported engine|requires node|node(?:\.js)? version"
)


def error_text(error: Mapping[str, Any]) -> str:
    """Return the message of a JSON-RPC error with the reasons in its data, at any depth."""
    data = error.get("data")
    if isinstance(data, Mapping):
        data = {key: value for key, value in data.items() if key != "authMethods"}  # those are no reasons
    texts = [str(error.get("message"))]
    reasons = [data] if isinstance(data, str) else list(_reasons(data, 0))
    if not reasons and data not in (None, {}, []):
        reasons = [orjson.dumps(data).decode()]
    for reason in reasons:
        if reason.strip() and not any(reason in text for text in texts):
            texts.append(reason.strip())
    return ": ".join(text.rstrip(":") for text in texts)[:MAX_TEXT]


def is_auth_failure(error: Mapping[str, Any]) -> bool:
    """Tell whether an agent's error says that its key or its login was refused."""
    if error.get("code") == _AUTH_REQUIRED:
        return True
    text = error_text(error)
    return any(kind in text for kind in _AUTH_KINDS) or says_auth(text)


def says_auth(text: str) -> bool:
    """Tell whether a text says that a key or a login is missing or was refused."""
    return re.search(_AUTH, text) is not None


def is_about_mcp(text: str) -> bool:
    """Tell whether a text is about an MCP server, which has a login of its own."""
    return re.search(_MCP, text) is not None


def says_not_installed(text: str) -> bool:
    """Tell whether a text says that a package or a program is missing, or does not fit."""
    return _NOT_INSTALLED.search(text) is not None


def last_lines(text: str) -> list[str]:
    """Return the last lines of a text that are not empty, each cut to a limit."""
    lines = [line.rstrip()[:_LINE] for line in text.splitlines() if line.strip()]
    return lines[-MAX_LINES:]


def cause_in(lines: Sequence[str]) -> str:
    """Return the line that says best why a program has ended; empty if there is none.

    That is the last line that names an error, else the first with a word of failure, else the last line.
    """
    useful = [line.strip() for line in lines if line.strip() and not _NOISE.search(line)]
    named = [line for line in useful if _NAMED_ERROR.search(line)]
    failing = [line for line in useful if _ANY_ERROR.search(line)]
    if named or failing:
        return named[-1] if named else failing[0]
    return (useful or [line.strip() for line in lines if line.strip()] or [""])[-1]


def _reasons(value: Any, depth: int) -> Iterator[str]:
    """Yield the texts that give a reason, those of the outer levels first."""
    if depth > _DEPTH:
        return
    if isinstance(value, Mapping):
        entries = {str(key).lower(): entry for key, entry in value.items()}
        for key in _REASON_KEYS:
            if isinstance(entries.get(key), str):
                yield entries[key]
        for entry in value.values():
            yield from _reasons(entry, depth + 1)
    elif isinstance(value, list):
        for entry in value:
            yield from [entry] if isinstance(entry, str) else _reasons(entry, depth + 1)
