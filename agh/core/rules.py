"""Permission rules: what the user has decided in advance. Pure.

A rule matches a request if all of its patterns match; the first matching rule decides. Patterns are shell
patterns (`*`, `?`, `[…]`); a path pattern is relative to the workspace unless it is absolute. If a request
has several paths or commands, each is judged by itself and the strictest decision counts.

A rule that denies or asks sees every command in a line, however it is spelled, and every word that may be a
path; if it cannot tell whether it matches, there is `doubt`, and only the user may allow the request.
A rule that allows sees only what is known word for word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from agh.core.named_tuple import NamedTuple

if TYPE_CHECKING:
    from agh.core.shell.commands import Unit

# The kinds of tools that ACP knows.
KINDS = (
    "read",
    "edit",
    "delete",
    "move",
    "search",
    "execute",
    "think",
    "fetch",
    "switch_mode",
    "other",
)
DECISIONS = ("allow", "deny", "ask")
PATTERNS = ("kind", "name", "path", "command")
_TOOL = r"([\w.*?:/-]+)(?:\((.+)\))?"
_PATH_KINDS = ("read", "edit", "delete", "move")
_SHELL_TOOLS = ("execute", "bash", "shell", "terminal")


class Asking(NamedTuple):
    """A permission request. Paths are real and absolute.

    `words` are the words of the command as paths, whether they are meant as such or not.
    """

    kind: str
    name: str | None = None
    paths: tuple[str, ...] = ()
    command: str | None = None
    words: tuple[str, ...] = ()

    @property
    def resource(self) -> str | None:
        """Return the command or the first path that the request is about."""
        return self.command or (self.paths[0] if self.paths else None)


class Rule(NamedTuple):
    decision: str
    kind: str | None = None
    name: str | None = None
    path: str | None = None
    command: str | None = None
    number: int = 0  # its place in the list that it comes from
    source: str = ""  # the file that it comes from
    tightens: bool = False  # it comes from a workspace, so that it cannot allow anything

    def __str__(self) -> str:
        patterns = [f"{key}={value!r}" for key in PATTERNS if (value := getattr(self, key)) is not None]
        where = f" (rule {self.number}{f' of {self.source}' if self.source else ''})" if self.number else ""
        return f"{self.decision} {' '.join(patterns)}{where}"


class Judgement(NamedTuple):
    """What rules say about a request: the decision and the rule behind it.

    `doubt` is a rule that would forbid the request if it matched, which is unclear.
    """

    decision: str | None = None
    rule: Rule | None = None
    doubt: Rule | None = None


def read_rules(tables: Any) -> list[Rule]:
    """Read rules from a list of tables; raise ValueError that names the first bad one and says why."""
    if not isinstance(tables, list):
        raise ValueError("rules must be a list of tables: [[permissions.rules]]")
    return [_read_rule(table, number) for number, table in enumerate(tables, 1)]


def decide(rules: Sequence[Rule], asking: Asking, workspace: str) -> str | None:
    """Return allow, deny or ask; None if no rule matches the request, or not all of it."""
    return judge(rules, asking, workspace).decision


def judge(rules: Sequence[Rule], asking: Asking, workspace: str) -> Judgement:
    """Return what the rules say about all of a request."""
    if not rules:
        return Judgement()
    units: Sequence[Unit | None] = (None,)
    if asking.command is not None:
        from agh.core.shell.commands import analyse

        units = analyse(asking.command).units
    judgements = [
        _judge_unit(rules, asking, path, unit, workspace)
        for path in asking.paths or (None,)
        for unit in units
    ]
    return _strictest([judgement for judgement in judgements if judgement is not None])


def allow_rules(tools: Sequence[str]) -> list[Rule]:
    """Return rules that allow tools, written as KIND, NAME, or either with (PATTERN) for a path or command.

    As in Claude Code, `(git log:*)` means the command `git log` with any arguments.
    """
    rules = []
    for tool in tools:
        match = re.fullmatch(_TOOL, tool)
        if match is None:
            raise ValueError(f"{tool!r} is not a tool such as edit, Read or execute(git *)")
        name, pattern = match[1], match[2]
        selector: dict[str, Any] = {"kind": name} if name in KINDS else {"name": name}
        if pattern is None:
            rules.append(Rule("allow", **selector))
            continue
        field = "command" if name.lower() in _SHELL_TOOLS else "path"
        whole, any_arguments = pattern.removesuffix(":*"), pattern.endswith(":*")
        for alternative in (whole, f"{whole} *") if any_arguments else (whole,):
            rules.append(Rule("allow", **{**selector, field: alternative}))
    return rules


def is_allowed(tools: Sequence[str], asking: Asking, workspace: str) -> bool:
    """Tell whether the tools cover the request, with each command in it."""
    return decide(allow_rules(tools), asking, workspace) == "allow"


def exactly(text: str) -> str:
    """Return a pattern that matches this text and nothing else."""
    return re.sub(r"([*?[])", r"[\1]", text)


def _read_rule(table: Any, number: int) -> Rule:
    if not isinstance(table, dict):
        raise ValueError(f"rule {number} is not a table")
    allowed = ("decision", *PATTERNS)
    unknown_keys = sorted(set(table) - set(allowed))
    if unknown_keys:
        raise ValueError(f"rule {number}: unknown key {unknown_keys[0]!r}; allowed: {', '.join(allowed)}")
    if table.get("decision") not in DECISIONS:
        raise ValueError(f"rule {number}: decision must be one of {', '.join(DECISIONS)}")
    patterns = {key: table[key] for key in PATTERNS if key in table}
    if not patterns or not all(isinstance(value, str) for value in patterns.values()):
        raise ValueError(f"rule {number}: give at least one of {', '.join(PATTERNS)}, as a string")
    return Rule(table["decision"], **patterns, number=number)


def _judge_unit(
    rules: Sequence[Rule], asking: Asking, path: str | None, unit: Unit | None, workspace: str
) -> Judgement | None:
    """Return what the rules say about one path and one command; None if that does not matter."""
    judgement, doubt = Judgement(), None
    for rule in rules:
        if unit is not None and unit.extra and rule.command is None and rule.path is None:
            continue  # it is about the line as a whole
        is_match = _matches(rule, asking, path, unit, workspace)
        if is_match:
            judgement = Judgement(rule.decision, rule)
            break
        if is_match is None:
            doubt = doubt or rule
    if judgement.decision != "deny" and doubt is not None:
        judgement = judgement._replace(doubt=doubt)
    if unit is None:
        return judgement
    if judgement.decision is None and unit.inner:
        inner = [_judge_unit(rules, asking, path, part, workspace) for part in unit.inner]
        judgement = _strictest([judgement for judgement in inner if judgement is not None])
    if unit.extra and judgement.decision in (None, "allow") and judgement.doubt is None:
        return None
    return judgement


def _strictest(judgements: Sequence[Judgement]) -> Judgement:
    order = ("deny", "ask", None, "allow")
    strictest = min(judgements, key=lambda judgement: order.index(judgement.decision), default=Judgement())
    doubt = next((judgement.doubt for judgement in judgements if judgement.doubt), None)
    return strictest._replace(doubt=doubt)


def _matches(rule: Rule, asking: Asking, path: str | None, unit: Unit | None, workspace: str) -> bool | None:
    """Tell whether a rule matches; None if it forbids something and that is unclear."""
    for pattern, value in ((rule.kind, asking.kind), (rule.name, asking.name)):
        if pattern is not None and (value is None or not fnmatchcase(value, pattern)):
            return False
    if rule.decision == "allow":
        return _allows_path(rule, asking, path, workspace) and _allows_command(rule, asking, unit)
    answers = (_forbids_path(rule, asking, path, workspace), _forbids_command(rule, asking, unit))
    return False if False in answers else None if None in answers else True


def _allows_path(rule: Rule, asking: Asking, path: str | None, workspace: str) -> bool:
    if rule.path is None:
        return True
    return path is not None and fnmatchcase(path, _absolute(rule.path, workspace))


def _allows_command(rule: Rule, asking: Asking, unit: Unit | None) -> bool:
    if rule.command is None:  # a path alone says nothing about what is run there
        return unit is None or rule.path is None or rule.kind is not None or rule.name is not None
    if unit is None or asking.command is None:
        return False
    if rule.command in ("*", exactly(asking.command)):
        return True
    return unit.known is not None and fnmatchcase(unit.known, rule.command)


def _forbids_path(rule: Rule, asking: Asking, path: str | None, workspace: str) -> bool | None:
    if rule.path is None:
        return True
    pattern = _absolute(rule.path, workspace)
    if path is not None and fnmatchcase(path, pattern):
        return True
    if path is None and asking.command is None:
        return None if asking.kind in _PATH_KINDS else False
    return _any_match(asking.words, pattern)


def _forbids_command(rule: Rule, asking: Asking, unit: Unit | None) -> bool | None:
    if rule.command is None:
        return True
    if unit is None:
        return None if asking.kind == "execute" else False
    return _any_match(unit.seen, rule.command)


def _any_match(texts: Sequence[str], pattern: str) -> bool | None:
    """Tell whether the pattern matches one of the texts; None if it only may."""
    if not texts:
        return False
    from agh.core.shell.patterns import matches, may_match

    if any(matches(text, pattern) for text in texts):
        return True
    return None if any(may_match(text, pattern) for text in texts) else False


def _absolute(pattern: str, workspace: str) -> str:
    return pattern if pattern.startswith("/") else f"{exactly(workspace.rstrip('/'))}/{pattern}"
