"""What is decided before a permission request reaches anyone: by memory, rules, this turn, or the mode.

Promises: no mode, and no rule without a path, allows what lies outside the workspace (and the directories of
`--add-dir`) or in a directory that agh itself obeys; no rule allows anything in a session whose own mode is
deny-all; what a rule of a workspace says only ever makes it stricter; what is unclear is asked.
"""

from __future__ import annotations

from typing import Any

from agh.adapters.agents import is_users_own
from agh.core import rules
from agh.core.named_tuple import NamedTuple
from agh.core.rules import Asking, Judgement
from agh.core.settings.layers import stricter
from agh.core.settings.values import UNATTENDED
from agh.core.shell.commands import canonical
from agh.keeper.agent.boundary import is_open
from agh.keeper.agent.tool_call import Subject
from agh.keeper.session import Live

READING = ("read", "search", "think")


class Verdict:
    """The verdict on a request (None if someone must be asked), what decided it, what was considered."""

    def __init__(self) -> None:
        self.verdict: str | None = None
        self.decided_by = ""
        self.rule: str | None = None
        self.steps: list[dict[str, str]] = []

    def note(self, by: str, says: str | None) -> None:
        """Note what one source of decisions says, in the order in which they are consulted."""
        if says is not None:
            self.steps.append({"by": by, "says": says})

    def decide(self, verdict: str | None, decided_by: str, rule: object = None) -> Verdict:
        self.verdict, self.decided_by = verdict, decided_by
        self.rule = None if rule is None else str(rule)
        return self


def decide_beforehand(live: Live, subject: Subject, *, ours: bool) -> Verdict:
    """Return the verdict on a request.

    `ours` are requests for our own files and terminals: what was just allowed for the agent's tool is allowed
    there too.
    """
    verdict, asking, workspace = Verdict(), subject.asking, live.cwd
    is_clear = not (subject.unclear or subject.partial)
    inside = is_clear and all(is_open(live.folders, path) for path in asking.paths)
    is_listed = inside and rules.is_allowed(live.meta.get("allowed_tools") or [], asking, workspace)
    if live.meta.get("permissions") == "deny-all":  # the session's own mode: no rule or memory overrides it
        verdict.note("mode", "deny-all, for the session")
        if is_listed:
            return verdict.decide("allow_all", "allowed_tools")
        return verdict.decide("deny", "mode")
    configured = live.settings["permissions.rules"]
    judgements = {
        "session": rules.judge(rules.read_rules(live.meta.get("permission_rules") or []), asking, workspace),
        "rule": rules.judge([rule for rule in configured if not rule.tightens], asking, workspace),
        "workspace": rules.judge([rule for rule in configured if rule.tightens], asking, workspace),
    }
    for source, judgement in judgements.items():
        verdict.note(source, _words(judgement))
    for source, judgement in judgements.items():
        if judgement.decision == "deny":
            return verdict.decide("deny", "session" if source == "session" else "rule", judgement.rule)
    if ours and (grant := _find_grant(live, asking)) is not None:
        verdict.note("this turn", f"already allowed with {grant}")
        return verdict.decide("allow", "this turn")
    return _decide_open(live, subject, verdict, judgements, inside=inside, is_listed=is_listed)


def _decide_open(
    live: Live,
    subject: Subject,
    verdict: Verdict,
    judgements: dict[str, Judgement],
    *,
    inside: bool,
    is_listed: bool,
) -> Verdict:
    """Decide what no rule forbids."""
    mode = _mode(live)
    verdict.note("mode", mode)
    doubt = next((judgement.doubt for judgement in judgements.values() if judgement.doubt), None)
    for source in ("session", "rule"):
        judgement = judgements[source]
        if judgement.decision == "ask":
            return verdict.decide(None, "rule", judgement.rule)
        covers = inside or (judgement.rule is not None and judgement.rule.path is not None)
        if judgement.decision == "allow" and covers and doubt is None:
            if source == "rule" and judgements["workspace"].decision == "ask":
                break
            return verdict.decide("allow_all", source, judgement.rule)
    if judgements["workspace"].decision == "ask":
        return verdict.decide(None, "rule", judgements["workspace"].rule)
    if mode == "deny-all":
        return verdict.decide("allow_all", "allowed_tools") if is_listed else verdict.decide("deny", "mode")
    if doubt is not None:
        return verdict.decide(None, "rule", doubt)
    if is_listed:
        return verdict.decide("allow_all", "allowed_tools")
    if not inside:
        return verdict.decide(None, "")
    if mode == "approve-all":
        return verdict.decide("allow_all", "mode")
    return verdict.decide("allow" if _only_reads(subject.asking) else None, "mode")


def _mode(live: Live) -> str:
    """Return the mode in force: the session's own; else the agent's and the configured one.

    A definition of an agent in the user's home may choose any mode; another one can only make it stricter.
    """
    own, record = live.meta.get("permissions"), live.agent.record
    configured = str(live.settings["permissions.mode"])
    if own or not record.permissions:
        return str(own or configured)
    return record.permissions if is_users_own(record) else stricter(record.permissions, configured)


def _only_reads(asking: Asking) -> bool:
    """Tell whether a request is known to read, and nothing else: one that runs a command is not."""
    if asking.kind not in READING or asking.command is not None:
        return False
    return bool(asking.paths) or asking.kind != "read"


def _find_grant(live: Live, asking: Asking) -> str | None:
    """Name the tool call that was allowed and is now carried out by this request."""
    turn = live.turns.current
    for grant in turn.grants if turn is not None else ():
        if grant.covers(asking):
            return f"tool call {grant.tool_call_id}" if grant.tool_call_id else "an earlier request"
    return None


class Grant(NamedTuple):
    """What was shown and allowed for one tool call, until that tool call or its turn ends."""

    tool_call_id: str | None
    subject: Subject

    def covers(self, asking: Asking) -> bool:
        """Tell whether a request for a file or a terminal is part of what was shown."""
        shown, edited = self.subject.asking, self.subject.edited
        if asking.command is not None:
            return shown.command is not None and _same_command(shown.command, asking.command)
        if not asking.paths or not set(asking.paths) <= set(shown.paths):
            return False
        return (
            asking.kind == "read"
            or shown.kind in ("edit", "delete", "move")
            or set(asking.paths) <= set(edited)
        )


def _same_command(shown: str, command: str) -> bool:
    return canonical(shown) == canonical(command)


def _words(judgement: Judgement) -> str | None:
    if judgement.rule is not None:
        return str(judgement.rule)
    return f"cannot tell: {judgement.doubt}" if judgement.doubt is not None else None


def rules_to_remember(asking: Asking, decision: str) -> list[dict[str, Any]]:
    """Return the rules that decide the same thing the same way for the rest of the session."""
    rule = {"decision": decision, "kind": rules.exactly(asking.kind)}
    if asking.command is not None:
        rule["command"] = rules.exactly(asking.command)
    if not asking.paths and asking.command is None and asking.name:
        rule["name"] = rules.exactly(asking.name)
    return [rule | {"path": rules.exactly(path)} for path in asking.paths] or [rule]


def time_to_answer(live: Live) -> float:
    """Return how many seconds a request waits; 0 is as long as it takes.

    By default that is so if somebody is at a terminal, or gets a notification.
    """
    limit: float | None = live.settings["permissions.timeout"]
    if limit is not None:
        return limit
    is_attended = live.turns.current_id in live.turns.attended or live.settings.get("notify")
    return 0.0 if is_attended else UNATTENDED
