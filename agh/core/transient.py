"""Which failures of a prompt may pass by themselves, so that sending it again is worth it. Pure.

An agent tells a model's failure as a JSON-RPC error whose words and data are its own. What speaks of a
log-in, a budget or the prompt itself stays as it is, however often it is sent: such a word anywhere
counts more than any hope. An error that says neither is not sent again.
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
_LASTING_CODES = (AUTH_REQUIRED, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, CANCELLED)
_PASSING_STATUS = (408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529)
_STATUS_KEYS = ("status", "statuscode", "status_code", "httpstatus", "http_status", "code")
_WAIT_KEYS = ("retryafter", "retry_after", "retry-after", "retryafterseconds", "retry_after_seconds")

_LASTING = (
    "(?i)"
    r"\b40[0134]\b|\b413\b|\b422\b|unauthori[sz]ed|forbidden|api[ _-]?key|log(?:ged)? ?in|authenticat"
    r"|insufficient|billing|credit|payment|quota|budget|usage limit"
    r"|context[ _]?(?:length|window)|too (?:long|large|many tokens)|max(?:imum)?[ _]tokens"
    r"|invalid[ _]request|unsupported|model[ _]not[ _]found|does not exist|content[ _](?:policy|filter)"
)
_PASSING = (
    "(?i)"
    r"\b(?:408|425|429|500|502|503|504|52[0249])\b|overload|rate[ _-]?limit|too many requests|at capacity"
    r"|time[d]?[ -]?out|temporar|unavailable|bad gateway|internal server error|server[ _]error"
    r"|connection (?:error|reset|refused|closed|aborted|lost)|econn(?:reset|refused|aborted)|etimedout"
    r"|enotfound|eai_again|socket hang up|fetch failed|network error|disconnected"
    r"|stream (?:error|ended|closed)|try again"
)


def is_transient(error: Mapping[str, Any]) -> bool:
    """Whether a JSON-RPC error speaks of a failure that may be over in a moment."""
    if error.get("code") in _LASTING_CODES:
        return False
    found = list(_leaves("", {"message": error.get("message"), "data": error.get("data")}))
    words = " ".join(value for _, value in found if isinstance(value, str))
    statuses = {value for key, value in found if key in _STATUS_KEYS and isinstance(value, int)}
    if re.search(_LASTING, words) or any(400 <= one < 500 for one in statuses - set(_PASSING_STATUS)):
        return False
    return bool(re.search(_PASSING, words)) or bool(statuses & set(_PASSING_STATUS))


def asked_wait(error: Mapping[str, Any]) -> float:
    """The seconds that the error itself asks to wait; 0 when it does not say."""
    for key, value in _leaves("", error.get("data")):
        if key in _WAIT_KEYS:
            try:
                return max(0.0, float(value))
            except (TypeError, ValueError):
                continue
    return 0.0


def _leaves(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Every plain value at any depth, with the key it stands under."""
    if isinstance(value, Mapping):
        for inner, one in value.items():
            yield from _leaves(str(inner).lower(), one)
    elif isinstance(value, list):
        for one in value:
            yield from _leaves(key, one)
    else:
        yield key, value
