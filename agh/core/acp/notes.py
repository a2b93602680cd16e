"""Markers for what an agent says about the session itself: notices, and compactions of its context. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agh.core.events import MARKER_CREATED as MARKER_CREATED

LONGEST = 2000
_SEVERITIES = ("info", "warning", "error")


def notice_marker(update: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the fields of the marker for a notice; None if it says nothing."""
    texts = [update.get(key) for key in ("title", "description")]
    summary = ": ".join(text.strip() for text in texts if isinstance(text, str) and text.strip())
    severity = update.get("severity")
    if not summary:
        return None
    return _marker("agent_notice", summary, severity if severity in _SEVERITIES else "info")


def compaction_marker(update: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the fields of the marker for a compaction that has ended; None while it runs."""
    if update.get("status") == "completed":
        return _marker("context_compacted", "the agent compacted its context here", "info")
    if update.get("status") == "failed":
        error = update.get("error")
        reason = f": {error}" if isinstance(error, str) and error else ""
        return _marker("compaction_failed", f"the agent could not compact its context{reason}", "warning")
    return None


def _marker(kind: str, summary: str, severity: str) -> dict[str, Any]:
    return {"kind": kind, "severity": severity, "summary": summary[:LONGEST]}
