"""Which failures of a model are worth another attempt."""

from __future__ import annotations

from typing import Any

import pytest

from agh.core.acp.transient import is_transient, retry_after

PASSING: list[dict[str, Any]] = [
    {"code": -32603, "message": "Internal error: API Error: 529 overloaded_error"},
    {"code": -32603, "message": "Internal error", "data": {"details": "Rate limit reached for gpt-5.5"}},
    {"code": -32603, "message": "Internal error", "data": {"error": {"status": 503}}},
    {"code": -32603, "message": "Internal error", "data": {"statusCode": 502, "message": "Bad gateway"}},
    {"code": -32603, "message": "stream disconnected before completion"},
    {"code": -32603, "message": "fetch failed", "data": {"cause": {"code": "ECONNRESET"}}},
    {"code": -32603, "message": "Request timed out."},
    {"code": -32603, "message": "The service is temporarily unavailable, try again"},
    {"code": -32001, "message": "Internal server error"},
    {"code": 429, "message": "Too Many Requests"},
]
LASTING: list[dict[str, Any]] = [
    {"code": -32603, "message": "Internal error"},
    {"code": -32603, "message": "Internal error: OpenCode service failure"},
    {"code": -32000, "message": "Authentication required, try again"},
    {"code": -32602, "message": "Invalid params: timeout"},
    {"code": -32601, "message": "Method not found"},
    {"code": -32800, "message": "Request cancelled: connection closed"},
    {"code": -32603, "message": "401 invalid x-api-key; try again"},
    {"code": -32603, "message": "Your credit balance is too low; rate limit"},
    {"code": -32603, "message": "You exceeded your current quota (429)"},
    {"code": -32603, "message": "You have hit your usage limit. Try again in 3 hours."},
    {
        "code": -32603,
        "message": "prompt is too long: 210000 tokens > 200000 maximum",
        "data": {"status": 500},
    },
    {"code": -32603, "message": "context_length_exceeded", "data": {"status": 503}},
    {"code": -32603, "message": "failed", "data": {"status": 400}},
    {"code": -32603, "message": "model not found: gpt-9 (503)", "data": "model_not_found"},
    {},
    {"code": None, "message": None, "data": None},
]


@pytest.mark.parametrize("error", PASSING, ids=lambda error: str(error.get("message")))
def test_may_pass(error: dict[str, Any]) -> None:
    assert is_transient(error)


@pytest.mark.parametrize("error", LASTING, ids=lambda error: str(error.get("message")))
def test_stays(error: dict[str, Any]) -> None:
    assert not is_transient(error)


@pytest.mark.parametrize(
    ("data", "seconds"),
    [
        ({"retryAfter": 7}, 7.0),
        ({"headers": {"Retry-After": "2.5"}}, 2.5),
        ([{"retry_after_seconds": 3}], 3.0),
        ({"retryAfter": -4}, 0.0),
        ({"retryAfter": "Wed, 21 Oct 2026 07:28:00 GMT"}, 0.0),
        ({}, 0.0),
        (None, 0.0),
        ("retryAfter", 0.0),
    ],
)
def test_the_wait_that_is_asked_for(data: Any, seconds: float) -> None:
    assert retry_after({"code": -32603, "message": "busy", "data": data}) == seconds


@pytest.mark.parametrize(
    "odd", [float("nan"), True, [[[]]], {"status": True}, {"": {"code": "42"}}, "\ud800"]
)
def test_any_error_has_an_answer(odd: Any) -> None:
    assert not is_transient({"code": odd, "message": odd, "data": odd})
    assert retry_after({"data": {"retryAfter": odd}}) >= 0
