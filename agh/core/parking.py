"""Parked prompts, as the metadata of a session describes them. Pure.

`resumes_at` says when the queue is sent again; `limited` what is known of the prompt that met the limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

NOT_PARKED = "; not parked: "  # in the error of a turn, between what the agent said and why it cannot wait


def is_due(meta: Mapping[str, Any], now: float) -> bool:
    """Tell whether the usage limit of a parked session has reset; `now` is in seconds since 1970."""
    return seconds_left(meta, now) <= 0


def seconds_left(meta: Mapping[str, Any], now: float) -> float:
    """Return how long a session stays parked. A time that cannot be read has passed."""
    try:
        return datetime.fromisoformat(str(meta.get("resumes_at"))).timestamp() - now
    except ValueError:
        return 0.0


def local_reset(meta: Mapping[str, Any]) -> str:
    """Return when the usage limit of a parked session resets, in local time."""
    at = str(meta.get("resumes_at"))
    try:
        return f"{datetime.fromisoformat(at).astimezone():%Y-%m-%d %H:%M}"
    except ValueError:
        return at


def has_open_question(meta: Mapping[str, Any], is_live: bool) -> bool:
    """Tell whether a question is waiting for an answer: nothing is sent before that.

    A question outlives a keeper that was killed, and a permission request does not.
    """
    activity = meta.get("activity") or {}
    pending_permissions = activity.get("pending_permissions") if is_live else 0
    return bool(meta.get("orphaned_questions") or activity.get("pending_questions") or pending_permissions)


def missing_variables(meta: Mapping[str, Any], environ: Mapping[str, str]) -> list[str]:
    """List the variables with keys that the agent had when its prompt was parked, and has not now."""
    return [name for name in (meta.get("limited") or {}).get("variables") or [] if name not in environ]
