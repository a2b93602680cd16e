"""What providers answer when an account is used up, each with the page it was seen on."""

from __future__ import annotations

import time
from typing import Any, NamedTuple


class Refusal(NamedTuple):
    status: int
    headers: dict[str, str]
    body: dict[str, Any]


def refusal_of(path: str, reset: float) -> Refusal:
    """Return what the provider behind this path answers until `reset`, in seconds since 1970."""
    seconds = max(1, round(reset - time.time()))
    if "messages" in path:
        return _anthropic(round(reset), seconds)
    return _codex(round(reset), seconds) if path.endswith("/responses") else _opencode(seconds)


def _anthropic(reset: int, seconds: int) -> Refusal:
    """A Claude subscription whose five hours are used up.

    The headers and the body: https://github.com/manaflow-ai/subrouter/pull/24 and
    https://github.com/dhkts1/teamclaude-rs/pull/174; retry-after:
    https://github.com/lidge-jun/opencodex/pull/3809.
    """
    unified = {"status": "rejected", "reset": str(reset), "representative-claim": "five_hour"}
    window = {"5h-status": "rejected", "5h-reset": str(reset), "5h-utilization": "1.04"}
    headers = {f"anthropic-ratelimit-unified-{name}": value for name, value in (unified | window).items()}
    message = "This request would exceed your account's rate limit. Please try again later."
    body = {"type": "error", "error": {"type": "rate_limit_error", "message": message}}
    return Refusal(429, headers | {"retry-after": str(seconds)}, body)


def _codex(reset: int, seconds: int) -> Refusal:
    """A ChatGPT plan: https://github.com/earendil-works/pi/issues/4172."""
    error = {
        "type": "usage_limit_reached",
        "message": "The usage limit has been reached",
        "plan_type": "plus",
        "resets_at": reset,
        "resets_in_seconds": seconds,
    }
    return Refusal(429, {}, {"error": error})


def _opencode(seconds: int) -> Refusal:
    """OpenCode Go.

    The words: https://github.com/earendil-works/pi/pull/4991; the type of the error:
    https://github.com/Gitlawb/openclaude/pull/1749; that retry-after is set, and to how much:
    https://github.com/earendil-works/pi/pull/4991.
    """
    hours = max(1, round(seconds / 3600))
    balance = "To continue using this model now, enable usage from your available balance"
    message = f"5-hour usage limit reached. Resets in {hours} hours. {balance}"
    body = {"type": "error", "error": {"type": "GoUsageLimitError", "message": message}}
    return Refusal(429, {"retry-after": str(seconds)}, body)
