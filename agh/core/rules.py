"""Permission rules: what the user has decided in advance. Pure.

A rule matches a request if all of its patterns match; the first matching rule decides. Patterns are shell
patterns (`*`, `?`, `[…]`); a path pattern is relative to the workspace unless it is absolute. A command is
matched as a whole. If a request has several paths, each is judged by itself and the strictest decision
counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

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
_PATTERNS = ("kind", "name", "path", "command")
_TOOL = r"([\w.*?:/-]+)(?:\((.+)\))?"
_SHELL = r"[;&|<>`$()\n\r]"
_SHELL_TOOLS = ("execute", "bash", "shell", "terminal")


class Asking(NamedTuple):
    """A permission request. Paths are real and absolute."""

    kind: str
    name: str | None = None
    paths: tuple[str, ...] = ()
    command: str | None = None

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


def read_rules(tables: Any) -> list[Rule]:
    """Read rules from a list of tables; raise ValueError that names the first bad one and says why."""
    if not isinstance(tables, list):
        raise ValueError("rules are a list of tables: [[permissions.rules]]")
    return [_read_rule(table, number) for number, table in enumerate(tables, 1)]


def decide(rules: Sequence[Rule], asking: Asking, workspace: str) -> str | None:
    """Return allow, deny or ask; None if no rule matches the request, or not all of it."""
    if len(asking.paths) > 1:
        decisions = {decide(rules, asking._replace(paths=(path,)), workspace) for path in asking.paths}
        return next((decision for decision in ("deny", "ask", None) if decision in decisions), "allow")
    return next((rule.decision for rule in rules if _matches(rule, asking, workspace)), None)


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
        selector = {"kind": name} if name in KINDS else {"name": name}
        if pattern is None:
            rules.append(Rule("allow", **selector))
            continue
        field = "command" if name.lower() in _SHELL_TOOLS else "path"
        whole, any_arguments = pattern.removesuffix(":*"), pattern.endswith(":*")
        for alternative in (whole, f"{whole} *") if any_arguments else (whole,):
            rules.append(Rule("allow", **selector, **{field: alternative}))
    return rules


def is_allowed(tools: Sequence[str], asking: Asking, workspace: str) -> bool:
    """Tell whether one of the tools covers the request.

    A command pattern never covers a line that could also run another command (`git log; rm x`).
    """
    rules = allow_rules(tools)
    if asking.command is not None and re.search(_SHELL, asking.command):
        rules = [rule for rule in rules if rule.command is None]
    return decide(rules, asking, workspace) == "allow"


def exactly(text: str) -> str:
    """Return a pattern that matches this text and nothing else."""
    return re.sub(r"([*?[])", r"[\1]", text)


def _read_rule(table: Any, number: int) -> Rule:
    if not isinstance(table, dict):
        raise ValueError(f"rule {number} is not a table")
    unknown_keys = set(table) - {"decision", *_PATTERNS}
    if unknown_keys:
        raise ValueError(f"rule {number}: unknown key {sorted(unknown_keys)[0]!r}")
    if table.get("decision") not in DECISIONS:
        raise ValueError(f"rule {number}: decision is one of {', '.join(DECISIONS)}")
    patterns = {key: table[key] for key in _PATTERNS if key in table}
    if not patterns or not all(isinstance(value, str) for value in patterns.values()):
        raise ValueError(f"rule {number}: give at least one pattern of {', '.join(_PATTERNS)}, as text")
    return Rule(table["decision"], **patterns)


def _matches(rule: Rule, asking: Asking, workspace: str) -> bool:
    path = rule.path
    if path is not None and not path.startswith("/"):
        path = f"{exactly(workspace.rstrip('/'))}/{path}"
    pairs = (
        (rule.kind, asking.kind),
        (rule.name, asking.name),
        (rule.command, asking.command),
        (path, asking.paths[0] if asking.paths else None),
    )
    return all(
        pattern is None or (value is not None and fnmatchcase(value, pattern)) for pattern, value in pairs
    )
