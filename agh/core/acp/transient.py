"""Which failures of a prompt are temporary, so that retrying it makes sense. Pure.

Agents report a model's failure as a JSON-RPC error with a message and data of their own. An error about a
log-in, a budget or the prompt itself does not go away, however often the prompt is sent: one such word
anywhere overrides every sign of a temporary failure. An error with neither sign is not retried.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

AUTH_REQUIRED, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, CANCELLED = (
    -32000,
    -32600,
    -32601,
    -32602,
    -32800,
)
_PERMANENT_CODES = (AUTH_REQUIRED, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, CANCELLED)
_TRANSIENT_STATUS = (408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529)
_STATUS_KEYS = ("status", "statuscode", "status_code", "httpstatus", "http_status", "code")
_WAIT_KEYS = ("retryafter", "retry_after", "retry-after", "retryafterseconds", "retry_after_seconds")

_PERMANENT = (
    "(?i)"
    r"\b40[0134]\b|\b413\b|\b422\b|unauthori[sz]ed|forbidden|api[ _-]?key|log(?:ged)? ?in|authenticat"
    r"|insufficient|billing|credit|payment|quota|budget|usage limit"
    r"|context[ _]?(?:length|window)|too (?:long|large|many tokens)|max(?:imum)?[ _]tokens"
    r"|invalid[ _]request|unsupported|model[ _]not[ _]found|does not exist|content[ _](?:policy|filter)"
)
_TRANSIENT = (
    "(?i)"
    r"\b(?:408|425|429|500|502|503|504|52[0249])\b|overload|rate[ _-]?limit|too many requests|at capacity"
    r"|time[d]?[ -]?out|temporar|unavailable|bad gateway|internal server error|server[ _]error"
    r"|connection (?:error|reset|refused|closed|aborted|lost)|econn(?:reset|refused|aborted)|etimedout"
    r"|enotfound|eai_again|socket hang up|fetch failed|network error|disconnected"
    r"|stream (?:error|ended|closed)|try again"
)


def is_transient(error: Mapping[str, Any]) -> bool:
    """Tell whether a JSON-RPC error describes a failure that may be over in a moment."""
    if error.get("code") in _PERMANENT_CODES:
        return False
    leaves = list(_leaves("", {"message": error.get("message"), "data": error.get("data")}))
    text = " ".join(value for _, value in leaves if isinstance(value, str))
    statuses = {value for key, value in leaves if key in _STATUS_KEYS and isinstance(value, int)}
    if re.search(_PERMANENT, text) or any(
        400 <= status < 500 for status in statuses - set(_TRANSIENT_STATUS)
    ):
        return False
    return bool(re.search(_TRANSIENT, text)) or bool(statuses & set(_TRANSIENT_STATUS))


def retry_after(error: Mapping[str, Any]) -> float:
    """Return the seconds that the error asks to wait before a retry; 0 if it does not say."""
    for key, value in _leaves("", error.get("data")):
        if key in _WAIT_KEYS:
            try:
                return max(0.0, float(value))
            except (TypeError, ValueError):
                continue
    return 0.0


def _leaves(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield every plain value at any depth, with its key in lower case."""
    if isinstance(value, Mapping):
        for child_key, child in value.items():
            yield from _leaves(str(child_key).lower(), child)
    elif isinstance(value, list):
        for child in value:
            yield from _leaves(key, child)
    else:
        yield key, value
