"""The forms in which providers and agents report a usage limit, each with the page it was seen on."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from agh.core.acp.usage_limit import is_notice, reset_in_error, reset_in_words

NOW = datetime(2026, 4, 22, 13, 40, 0, tzinfo=UTC)
CODEX_BODY = {
    "error": {
        "type": "usage_limit_reached",
        "message": "The usage limit has been reached",
        "plan_type": "plus",
        "resets_at": 1777936568,
        "resets_in_seconds": 13872,
    }
}
GEMINI_DETAILS = [
    {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "QUOTA_EXHAUSTED",
        "domain": "cloudcode-pa.googleapis.com",
        "metadata": {"quotaResetDelay": "6548.2s", "quotaResetTimeStamp": "2026-04-22T15:29:08Z"},
    },
    {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "6548.2s"},
]


def internal(message: str, data: Any = None) -> dict[str, Any]:
    return {"code": -32603, "message": message, **({} if data is None else {"data": data})}


FORMS = {
    # https://github.com/anthropics/claude-code/issues/42042
    "claude, a time of the day": (
        internal("Internal error: You've hit your limit · resets 8pm (Europe/Berlin)"),
        "2026-04-22T18:00:00+00:00",
    ),
    # https://github.com/anthropics/claude-code/issues/73038
    "claude, session limit": (
        internal(
            "Internal error",
            {"details": "You've hit your session limit · resets 11:30pm (America/Sao_Paulo)"},
        ),
        "2026-04-23T02:30:00+00:00",
    ),
    # https://github.com/anthropics/claude-code/issues/51981
    "claude, a date": (
        internal("You've hit your limit · resets Apr 23 at 4pm (America/Recife)"),
        "2026-04-23T19:00:00+00:00",
    ),
    # https://github.com/anthropics/claude-code/issues/11429, earlier versions
    "claude, seconds since 1970": (
        internal("Claude AI usage limit reached|1776880800"),
        "2026-04-22T18:00:00+00:00",
    ),
    # https://github.com/earendil-works/pi/issues/4172, the provider's own body
    "codex, the body of the 429": (
        internal(f"Codex error: {json.dumps(CODEX_BODY)}"),
        "2026-05-04T23:16:08+00:00",
    ),
    # https://github.com/screenpipe/screenpipe/pull/6875 has the name in data
    "codex, its adapter": (
        internal(
            "Internal error",
            {
                "message": "You've hit your usage limit. Visit https://chatgpt.com/codex/settings/usage to "
                "purchase more credits or try again at Aug 8th, 2026 12:42 AM.",
                "codexErrorInfo": "usageLimitExceeded",
            },
        ),
        "2026-08-08T00:42:00+00:00",
    ),
    # https://github.com/openai/codex/issues/3899
    "codex, a span": (
        internal(
            "You've hit your usage limit. Upgrade to Pro (https://openai.com/chatgpt/pricing) or try again "
            "in 5 days 22 hours 11 minutes."
        ),
        "2026-04-28T11:51:00+00:00",
    ),
    # https://github.com/google-gemini/gemini-cli, googleQuotaErrors.ts (TerminalQuotaError)
    "gemini, a span": (
        internal("You have exhausted your capacity on this model. Your quota will reset after 1h49m8s."),
        "2026-04-22T15:29:08+00:00",
    ),
    "gemini, the details of the 429": (
        internal(
            "Quota exceeded",
            {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": GEMINI_DETAILS}},
        ),
        "2026-04-22T15:29:08+00:00",
    ),
    # https://github.com/anomalyco/opencode/issues/49170
    "opencode, go": (
        internal(
            "Internal error",
            {"details": "weekly usage limit reached. It will reset in 5 days 10 hours. To continue"},
        ),
        "2026-04-27T23:40:00+00:00",
    ),
    # https://github.com/anomalyco/opencode/issues/50093
    "opencode, free": (
        internal("Free usage exceeded, subscribe to Go retrying in 6h16m"),
        "2026-04-22T19:56:00+00:00",
    ),
    # https://github.com/Gitlawb/openclaude/pull/1749 names the error of the gateway
    "opencode, the body and its header": (
        internal(
            "AI_APICallError",
            {"responseBody": '{"error":{"type":"GoUsageLimitError"}}', "headers": {"retry-after": "7200"}},
        ),
        "2026-04-22T15:40:00+00:00",
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_the_reset_is_read(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    error, expected = FORMS[form]
    reset = reset_in_error(error, NOW)
    assert reset is not None
    assert reset.astimezone(UTC).isoformat() == expected


@pytest.mark.parametrize(
    "message",
    [
        # https://github.com/google-gemini/gemini-cli/issues/14811: a quota, and no word of its end
        "Resource has been exhausted (e.g. check quota).",
        "429 Too Many Requests, try again in 20s",  # a rate, for --retries
        "529 overloaded",
        "the test at 3pm (in the office) failed; try again at 3pm",
        "usage limit reached, resets in 900000 days",
    ],
)
def test_other_failures_are_no_limit_that_passes(message: str) -> None:
    assert reset_in_error(internal(message), NOW) is None


def test_a_reset_in_the_past_is_a_minute_away() -> None:
    reset = reset_in_error(internal("Claude AI usage limit reached|1762952400"), NOW)
    assert reset is not None
    assert (reset - NOW).total_seconds() == 60


def test_a_time_without_a_zone_is_local() -> None:
    reset = reset_in_words("You've hit your usage limit. Upgrade to Pro or try again at 3:48 AM.", NOW)
    assert reset is not None
    local = reset.astimezone()
    assert (local.hour, local.minute) == (3, 48)
    assert 0 < (reset - NOW).total_seconds() <= 86400


def test_only_the_notice_alone_is_a_notice() -> None:
    assert is_notice("You've hit your limit · resets 8pm (Europe/Berlin)")
    assert is_notice(
        "You’ve hit your usage limit. Upgrade to Pro, or try again at 8:14 PM.\n\n"
    )  # codex-acp 2.6
    assert not is_notice('I added a test for "You\'ve hit your limit · resets 8pm".')
    assert not is_notice("You've hit your limit · resets 8pm" + " and more" * 40)
