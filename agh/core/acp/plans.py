"""An agent's plan in lines, from any of the updates that carry one. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agh.core.acp.frames import only_dicts

UPDATES = ("plan", "plan_update", "plan_removed")
_MARKS = {"completed": "[x]", "in_progress": "[>]"}


def plan_lines(update: Any) -> list[str]:
    """Return a plan as lines: its entries with a mark each, its text, or the file that has it."""
    if not isinstance(update, Mapping):
        return []
    if update.get("sessionUpdate") == "plan_removed":
        return ["the plan was dropped"]
    plan = update.get("plan")
    plan = plan if isinstance(plan, Mapping) else update
    if isinstance(plan.get("uri"), str):
        return [f"the plan is in {plan['uri']}"]
    if isinstance(plan.get("content"), str):
        return [line for line in plan["content"].splitlines() if line.strip()]
    entries = only_dicts(plan.get("entries"))
    return [f"{_MARKS.get(str(entry.get('status')), '[ ]')} {entry.get('content')}" for entry in entries]
