"""Parsing the JSON in agents' answers: the orchestrator's choice, a member's requests for children. Pure.

Agents wrap JSON in prose and fences, so the first object that has the expected key counts. Anything that is
not exactly what was asked for is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from agh.core.named_tuple import NamedTuple

_CHILD_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,40}")
MAX_CHILDREN, MAX_CANDIDATES = 4, 100


class Choice(NamedTuple):
    """What the orchestrator wants in the next round."""

    messages: dict[str, str]  # by member
    ends: bool = False
    memo: str = ""


class ChildRequest(NamedTuple):
    """A member's wish to have something looked into by a child, a member of its own."""

    name: str
    role: str
    message: str


def parse_choice(answer: str, members: Sequence[str]) -> Choice | str:
    """Return the orchestrator's choice, or the reason why its answer holds none."""
    choice = find_object(answer, "action")
    if choice is None:
        return "the orchestrator's answer has no JSON action"
    action = choice["action"]
    if action == "end":
        memo = choice.get("memo") or ""
        return Choice({}, True, memo) if isinstance(memo, str) else "the orchestrator's memo is not a string"
    if action == "broadcast" and _is_text(choice.get("message")):
        return Choice(dict.fromkeys(members, choice["message"]))
    if action == "delegate" and isinstance(choice.get("delegations"), list) and choice["delegations"]:
        messages: dict[str, str] = {}
        for delegation in choice["delegations"]:
            target = delegation.get("target") if isinstance(delegation, dict) else None
            if not isinstance(target, str) or target not in members:
                return f"the orchestrator asked {target!r}, but there is no such member"
            if target in messages or not _is_text(delegation.get("message")):
                return f"the orchestrator did not send {target} exactly one message"
            messages[target] = delegation["message"]
        return Choice(messages)
    return f"the orchestrator's action {action!r} is incomplete or unknown"


def parse_child_requests(answer: str) -> list[ChildRequest]:
    """Return the children that a member asks for; none if any request is invalid."""
    answer_object = find_object(answer, "delegate")
    entries = answer_object["delegate"] if answer_object else None
    if not isinstance(entries, list) or len(entries) > MAX_CHILDREN:
        return []
    requests = []
    for entry in entries:
        if (
            not isinstance(entry, dict)
            or not _CHILD_NAME.fullmatch(str(entry.get("id")))
            or not _is_text(entry.get("message"))
        ):
            return []
        requests.append(ChildRequest(str(entry["id"]), str(entry.get("role") or ""), str(entry["message"])))
    names = [request.name for request in requests]
    return requests if len(set(names)) == len(names) else []


def find_object(text: str, key: str) -> dict[str, Any] | None:
    """Return the first JSON object in the text that has the key."""
    decoder, start = json.JSONDecoder(), text.find("{")
    for _ in range(MAX_CANDIDATES):  # a text of nothing but braces must not take quadratic time
        if start < 0:
            break
        try:
            value, _ = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict) and key in value:
            return value
        start = text.find("{", start + 1)
    return None


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())
