"""What is decided before a permission request reaches anyone: by memory, rules, this turn, or the mode.

Promises: no mode allows what lies outside the workspace, or in a directory that agh itself obeys; no rule
allows anything in a session whose own mode is deny-all.
"""

from __future__ import annotations

from typing import Any

from agh.core import rules
from agh.core.rules import Asking
from agh.keeper.agent.boundary import is_open
from agh.keeper.session import Live

READING = ("read", "search", "think")


def decide_beforehand(live: Live, asking: Asking, *, ours: bool) -> tuple[str | None, str]:
    """Return the verdict on a request, or None if someone must be asked, and what decided it.

    `ours` are requests for our own files and terminals: what was just allowed for the agent's tool is allowed
    there too.
    """
    workspace, turn = live.cwd, live.turns.current
    inside = all(is_open(workspace, path) for path in asking.paths)
    if live.meta.get("permissions") == "deny-all":  # the session's own mode: no rule or memory overrides it
        listed = inside and rules.is_allowed(live.meta.get("allowed_tools") or [], asking, workspace)
        return ("allow_all", "allowed_tools") if listed else ("deny", "mode")
    remembered = rules.read_rules(live.meta.get("permission_rules") or [])
    decision = None
    for source, known_rules in (("session", remembered), ("rule", live.settings["permissions.rules"])):
        decision = rules.decide(known_rules, asking, workspace)
        if decision in ("allow", "deny"):
            return ("allow_all" if decision == "allow" else "deny"), source
        if decision is not None:
            break
    if ours and turn is not None and (asking.kind, asking.resource) in turn.approved:
        return "allow", "this turn"
    if decision == "ask":
        return None, "rule"
    if inside and rules.is_allowed(live.meta.get("allowed_tools") or [], asking, workspace):
        return "allow_all", "allowed_tools"
    mode = str(
        live.meta.get("permissions") or live.agent.record.permissions or live.settings["permissions.mode"]
    )
    if mode == "deny-all":
        return "deny", "mode"
    if not inside:
        return None, ""
    if mode == "approve-all":
        return "allow_all", "mode"
    return ("allow" if asking.kind in READING else None), "mode"


def rules_to_remember(asking: Asking, decision: str) -> list[dict[str, Any]]:
    """Return the rules that decide the same thing the same way for the rest of the session."""
    rule = {"decision": decision, "kind": rules.exactly(asking.kind)}
    if asking.command is not None:
        rule["command"] = rules.exactly(asking.command)
    if not asking.paths and asking.command is None and asking.name:
        rule["name"] = rules.exactly(asking.name)
    return [rule | {"path": rules.exactly(path)} for path in asking.paths] or [rule]
