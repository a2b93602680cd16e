"""Reading what agents answer in JSON: the orchestrator's action, a member's wish for members. Pure.

Agents wrap JSON in words and fences; the first object with the key that is looked for counts. Anything
that is not exactly what may be asked for is refused with the reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

_CHILD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,40}")
MOST_CHILDREN, MOST_LOOKS = 4, 100


class Choice(NamedTuple):
    messages: dict[str, str]  # by member
    ends: bool = False
    memo: str = ""


def chosen(answer: str, members: Sequence[str]) -> Choice | str:
    """The orchestrator's choice, or why there is none."""
    found = find_object(answer, "action")
    if found is None:
        return "the orchestrator gave no JSON action"
    action = found["action"]
    if action == "end":
        memo = found.get("memo") or ""
        return Choice({}, True, memo) if isinstance(memo, str) else "the memo is not a text"
    if action == "broadcast" and _is_said(found.get("message")):
        return Choice(dict.fromkeys(members, found["message"]))
    if action == "delegate" and isinstance(found.get("delegations"), list) and found["delegations"]:
        messages: dict[str, str] = {}
        for one in found["delegations"]:
            target = one.get("target") if isinstance(one, dict) else None
            if not isinstance(target, str) or target not in members:
                return f"there is no member {target!r}"
            if target in messages or not _is_said(one.get("message")):
                return f"{target} must get exactly one message"
            messages[target] = one["message"]
        return Choice(messages)
    return f"the action {action!r} is incomplete or unknown"


def requests(answer: str) -> list[tuple[str, str, str]]:
    """The members that a member wants: name, role and message of each; none unless all make sense."""
    found = find_object(answer, "delegate")
    wanted = found["delegate"] if found else None
    if not isinstance(wanted, list) or len(wanted) > MOST_CHILDREN:
        return []
    made = []
    for one in wanted:
        if (
            not isinstance(one, dict)
            or not _CHILD.fullmatch(str(one.get("id")))
            or not _is_said(one.get("message"))
        ):
            return []
        made.append((str(one["id"]), str(one.get("role") or ""), str(one["message"])))
    names = [name for name, _, _ in made]
    return made if len(set(names)) == len(names) else []


def find_object(text: str, key: str) -> dict[str, Any] | None:
    """The first JSON object in a text that has the key."""
    decoder, at = json.JSONDecoder(), text.find("{")
    for _ in range(MOST_LOOKS):  # a text of nothing but braces must not cost the square of its length
        if at < 0:
            break
        try:
            found, _ = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict) and key in found:
            return found
        at = text.find("{", at + 1)
    return None


def _is_said(text: Any) -> bool:
    return isinstance(text, str) and bool(text.strip())
