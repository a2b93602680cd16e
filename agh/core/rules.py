"""Permission rules: what the user has decided beforehand. Pure.

A rule matches a request when every pattern it gives matches; the first rule that matches decides.
Patterns are shell patterns (`*`, `?`, `[…]`); a path pattern is taken from the workspace on, unless it is
absolute. A command is matched whole. Of several paths each is judged by itself, and the strictest
decision counts.
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
_RUNNING = ("execute", "bash", "shell", "terminal")


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
    if len(asking.paths) > 1:
        found = {decide(rules, asking._replace(paths=(path,)), workspace) for path in asking.paths}
        return next((one for one in ("deny", "ask", None) if one in found), "allow")
    return next((rule.decision for rule in rules if _matches(rule, asking, workspace)), None)


def allowing(tools: Sequence[str]) -> list[Rule]:
    """Rules that allow tools, each given as KIND, NAME, or either with (PATTERN) for its path or command.

    As in Claude Code, `(git log:*)` is the command `git log` with any arguments.
    """
    made = []
    for tool in tools:
        match = re.fullmatch(_TOOL, tool)
        if match is None:
            raise ValueError(f"{tool!r} is not a tool such as edit, Read or execute(git *)")
        name, pattern = match[1], match[2]
        who = {"kind": name} if name in KINDS else {"name": name}
        if pattern is None:
            made.append(Rule("allow", **who))
            continue
        about = "command" if name.lower() in _RUNNING else "path"
        whole, any_arguments = pattern.removesuffix(":*"), pattern.endswith(":*")
        for one in (whole, f"{whole} *") if any_arguments else (whole,):
            made.append(Rule("allow", **who, **{about: one}))
    return made


def is_allowed(tools: Sequence[str], asking: Asking, workspace: str) -> bool:
    """Whether a tool is among those allowed. A pattern for a command never covers a line that could run
    another one too (`git log; rm x`)."""
    known = allowing(tools)
    if asking.command is not None and re.search(_SHELL, asking.command):
        known = [rule for rule in known if rule.command is None]
    return decide(known, asking, workspace) == "allow"


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


def _matches(rule: Rule, asking: Asking, workspace: str) -> bool:
    path = rule.path
    if path is not None and not path.startswith("/"):
        path = f"{exactly(workspace.rstrip('/'))}/{path}"
    wanted = (
        (rule.kind, asking.kind),
        (rule.name, asking.name),
        (rule.command, asking.command),
        (path, asking.paths[0] if asking.paths else None),
    )
    return all(
        pattern is None or (value is not None and fnmatchcase(value, pattern)) for pattern, value in wanted
    )
