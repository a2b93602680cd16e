"""A permission request in agh's own words: what it is about first, what the agent calls it last. Pure.

The table, the question at a terminal, the JSON and the page all show what is made here, and an answer carries
the digest of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from agh.core.acp.tool_calls import Edit

# The fields of a `permission` event by which a request is judged and shown.
SUBJECT = ("action", "resource", "command", "paths", "outside", "diff", "unclear", "title", "tool_call_id")
_VERBS = {
    "read": "read",
    "edit": "edit",
    "delete": "delete",
    "move": "move",
    "search": "search",
    "execute": "run",
    "think": "think",
    "fetch": "fetch something from the network",
    "switch_mode": "switch its mode",
}
_DIFF_LINES, _DIFF_LENGTH = 2_000, 50_000


def headline(fields: Mapping[str, Any]) -> str:
    """Say in one line what the agent wants to do: the action, the whole command, every path.

    The lines of a command stay apart: joined, the second command would look like arguments of the first.
    """
    if fields.get("unclear"):
        return "do something that it does not specify"
    action = str(fields.get("action") or "other")
    verb = _VERBS.get(action, "use a tool" if action == "other" else action)
    paths = _paths(fields)
    command = fields.get("command") or (fields.get("resource") if action == "execute" else None)
    about = ", ".join(filter(None, [str(command) if command else "", *paths])).replace("\n", " ⏎ ")
    return f"{verb}: {about}" if about else verb


def description(fields: Mapping[str, Any]) -> list[str]:
    """Describe a request in lines: what it is about, the change of a file, then the agent's own title."""
    diff = fields.get("diff")
    lines = [headline(fields), *(str(diff).split("\n") if diff else [])]
    if title := fields.get("title"):
        lines.append(f"the agent calls it: {title}")
    return lines


def digest(request_id: str, fields: Mapping[str, Any], options: Sequence[Any]) -> str:
    """Return a digest of all that is shown of a request, and of the options that it offers."""
    from hashlib import sha256

    subject = [fields.get(key) for key in SUBJECT]
    offers = [option.get("kind") for option in options if isinstance(option, dict)]
    return sha256(orjson.dumps([request_id, subject, offers], default=str)).hexdigest()


_VERDICTS = {
    "allow_once": "allow",
    "allow_always": "allow_always",
    "reject_once": "deny",
    "reject_always": "deny_always",
}


def offered(options: Sequence[Any]) -> list[str]:
    """Return the answers that an agent's options allow, such as allow and deny_always."""
    kinds = {option.get("kind") for option in options if isinstance(option, dict)}
    return [verdict for kind, verdict in _VERDICTS.items() if kind in kinds]


def named_options(options: Sequence[Any]) -> list[dict[str, str]]:
    """Return the agent's own options: the id, the name it gives each, and the answer that it means."""
    return [
        {
            "option_id": str(option.get("optionId")),
            "name": str(option.get("name") or ""),
            "verdict": _VERDICTS[option["kind"]],
        }
        for option in options
        if isinstance(option, dict) and option.get("kind") in _VERDICTS
    ]


def show_edits(edits: Sequence[Edit]) -> str | None:
    """Return the changes of files as a unified diff; a part of it if it is very long."""
    from agh.core.diff import split_lines, unified

    lines: list[str] = []
    for edit in edits:
        path = edit.path or "(a file)"
        if edit.new is None:
            lines.append(f"{path}: the change is too long to be shown here")
            continue
        old, new = edit.old or "", edit.new
        before, after = len(split_lines(old)), len(split_lines(new))
        if before + after > _DIFF_LINES:
            lines.append(f"{path}: {before} lines become {after}, too many to be shown here")
            continue
        lines += unified(old, new, path)
    text = "\n".join(lines)
    if len(text) > _DIFF_LENGTH:
        text = text[:_DIFF_LENGTH] + "\n… the rest is too long to be shown here"
    return text or None


def _paths(fields: Mapping[str, Any]) -> list[str]:
    paths = fields.get("paths")
    if not isinstance(paths, list):  # of a log that an earlier version wrote
        paths = [fields["resource"]] if fields.get("resource") and fields.get("action") != "execute" else []
    outside = fields.get("outside") or []
    return [f"{path} (outside the workspace)" if path in outside else str(path) for path in paths]
