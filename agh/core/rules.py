"""Permission rules: what the user has decided beforehand. Pure.

A rule matches a request when every pattern it gives matches; the first rule that matches decides.
Patterns are shell patterns (`*`, `?`, `[…]`); a path pattern is taken from the workspace on, unless it is
absolute. A command is matched whole. Of several paths, all must be matched by allowing rules; any other
rule decides when it matches one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

DECISIONS = ("allow", "deny", "ask")
_PATTERNS = ("kind", "name", "path", "command")


class Asking(NamedTuple):
    """What is asked for. Paths are real and absolute."""

    kind: str
    name: str | None = None
    paths: tuple[str, ...] = ()
    command: str | None = None

    @property
    def resource(self) -> str | None:
        """What it is about, in one line."""
        return self.command or (self.paths[0] if self.paths else None)


class Rule(NamedTuple):
    decision: str
    kind: str | None = None
    name: str | None = None
    path: str | None = None
    command: str | None = None


def read_rules(given: Any) -> list[Rule]:
    """Rules from a list of tables; ValueError says which one is wrong and why."""
    if not isinstance(given, list):
        raise ValueError("rules are a list of tables: [[permissions.rules]]")
    return [_rule(one, number) for number, one in enumerate(given, 1)]


def decide(rules: Sequence[Rule], asking: Asking, workspace: str) -> str | None:
    """allow, deny or ask; None when no rule speaks of it, or not of all of it."""
    uncovered = set(asking.paths)
    for rule in rules:
        if not _speaks_of(rule, asking):
            continue
        if rule.path is None:
            return rule.decision
        pattern = rule.path if rule.path.startswith("/") else f"{exactly(workspace.rstrip('/'))}/{rule.path}"
        matched = {path for path in asking.paths if fnmatchcase(path, pattern)}
        uncovered -= matched
        if matched and (rule.decision != "allow" or not uncovered):
            return rule.decision
    return None


def exactly(text: str) -> str:
    """A pattern that matches this text and nothing else."""
    return re.sub(r"([*?[])", r"[\1]", text)


def _rule(given: Any, number: int) -> Rule:
    if not isinstance(given, dict):
        raise ValueError(f"rule {number} is not a table")
    unknown = set(given) - {"decision", *_PATTERNS}
    if unknown:
        raise ValueError(f"rule {number}: unknown key {sorted(unknown)[0]!r}")
    if given.get("decision") not in DECISIONS:
        raise ValueError(f"rule {number}: decision is one of {', '.join(DECISIONS)}")
    patterns = {key: given[key] for key in _PATTERNS if key in given}
    if not patterns or not all(isinstance(value, str) for value in patterns.values()):
        raise ValueError(f"rule {number}: give at least one pattern of {', '.join(_PATTERNS)}, as text")
    return Rule(given["decision"], **patterns)


def _speaks_of(rule: Rule, asking: Asking) -> bool:
    """Whether every pattern but the path's matches."""
    wanted = ((rule.kind, asking.kind), (rule.name, asking.name), (rule.command, asking.command))
    return all(
        pattern is None or (value is not None and fnmatchcase(value, pattern)) for pattern, value in wanted
    )
