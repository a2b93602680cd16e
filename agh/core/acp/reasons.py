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

_NOISE = (
    r"^\s*(?:at |\^|[\]})]|throw |node:|File \"|Node\.js v|\w+: ['\[{]|code: )|complete log of this run"
    r"|^npm (?:error|ERR!)\s*(?:code\b.*|errno\b.*|syscall\b.*|\d*\s*)$|^\s*[-=~*]+\s*$"
)
_NAMED_ERROR = r"(?i)\b[A-Z]\w*(?:Error|Exception)\b(?: \[\w+\])?:|^(?:error|fatal|panic)(?:\[\w+\])?[: ]"
_ANY_ERROR = (
    r"(?i)error|fatal|panic|cannot|can't|could not|not found|no such|denied|refused|invalid|missing"
    r"|unsupported|required|failed|unauthori[sz]ed|unknown"
)
_CAUSE_LINE = r"(?i)^(?:caused? by|cause|reason): |^╰─▶ "
_NO_PACKAGE = (
    r"(?i)\be404\b|404 not found|is not in this registry|not found in the package registry"
    r"|no matching distribution"
)
_NOT_INSTALLED = (
    r"(?i)cannot find (?:module|package)|modulenotfounderror|no module named|command not found|no such file"
)
_OLD_NODE = (
    r"(?i)unsupported engine|ebadengine|requires node|node(?:\.js)? version|err_require_esm"
    r"|err_unknown_builtin_module|no such built-in module|does not provide an export named"
    r"|syntaxerror:(?s:.)*node\.js v\d"
)
_NO_NETWORK = (
    r"(?i)\be(?:notfound|ai_again|connrefused|connreset|timedout|netunreach|hostunreach)\b"
    r"|connection (?:error|refused|reset|failed)|network (?:error|is unreachable)|fetch failed|dns error"
    r"|could not resolve|name resolution|(?:failed|unable) to (?:connect|fetch)|socket hang up"
)
_NO_MODEL = (
    r"(?i)model_not_found|\bmodel\b.{0,80}(?:not[ _]found|unknown|not exist|not supported|unsupported)"
    r"|\bmodel\b.{0,80}(?:invalid|not available)"
    r"|(?:unknown|invalid|unsupported|no such) model|\bmodel: [^ ]+ \(not_found"
)
_NOTHING_SAID = r"(?i)internal (?:server )?error\.?"
NO_REASON = "internal error, no reason given"


def error_text(error: Mapping[str, Any]) -> str:
    """Return the message of a JSON-RPC error with the reasons in its data, at any depth."""
    data = error.get("data")
    if isinstance(data, Mapping):
        data = {key: value for key, value in data.items() if key != "authMethods"}  # those are no reasons
    texts = [_without_json(str(error.get("message")))]
    reasons = [data] if isinstance(data, str) else list(_reasons(data, 0))
    if not reasons and data not in (None, {}, []):
        reasons = [orjson.dumps(data).decode()]
    for reason in map(_without_json, reasons):
        if reason.strip() and not any(reason in text for text in texts):
            texts.append(reason.strip())
    if re.fullmatch(_NOTHING_SAID, texts[0]):
        texts = texts[1:] or [NO_REASON]
    return ": ".join(text.rstrip(":") for text in texts)[:MAX_TEXT]


def _without_json(text: str) -> str:
    """Return a text whose JSON at the end, as of a provider's answer, is replaced by what that says."""
    start = text.find("{")
    if start < 0:
        return text
    try:
        value = orjson.loads(text[start:])
    except orjson.JSONDecodeError:
        return text
    reasons = list(dict.fromkeys(_reasons(value, 0)))
    inner = value.get("error")
    kind = inner.get("type") if isinstance(inner, dict) else None
    kinds = [f"({kind})"] if isinstance(kind, str) and kind else []
    head = text[:start].rstrip(" :")
    return " ".join([": ".join(filter(None, [head, *reasons])), *kinds]) if reasons else text


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
    """Tell whether a text says that a part of a program is missing."""
    return re.search(_NOT_INSTALLED, text) is not None


def says_no_package(text: str) -> bool:
    """Tell whether a text says that no registry has the package to run."""
    return re.search(_NO_PACKAGE, text) is not None


def says_old_node(text: str) -> bool:
    """Tell whether a text, which may have several lines, says that a newer Node.js is needed."""
    return re.search(_OLD_NODE, text) is not None


def says_no_network(text: str) -> bool:
    """Tell whether a text says that a server could not be reached."""
    return re.search(_NO_NETWORK, text) is not None


def says_no_model(text: str) -> bool:
    """Tell whether a text says that there is no such model."""
    return re.search(_NO_MODEL, text) is not None


def last_lines(text: str) -> list[str]:
    """Return the last lines of a text that are not empty, each cut to a limit."""
    lines = [line.rstrip()[:_LINE] for line in text.splitlines() if line.strip()]
    return lines[-MAX_LINES:]


def cause_in(lines: Sequence[str]) -> str:
    """Return the line that says best why a program has ended; empty if there is none.

    That is a line that calls itself the cause, else the last line that names an error, else the first with a
    word of failure, else the last line.
    """
    useful = [line.strip() for line in lines if line.strip() and not re.search(_NOISE, line)]
    causes = [line for line in useful if re.search(_CAUSE_LINE, line)]
    if causes:
        return re.sub(_CAUSE_LINE, "", causes[-1])
    named = [line for line in useful if re.search(_NAMED_ERROR, line)]
    failing = [line for line in useful if re.search(_ANY_ERROR, line)]
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
