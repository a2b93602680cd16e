from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agh.core.rules import (
    Asking,
    Judgement,
    Rule,
    allow_rules,
    decide,
    exactly,
    is_allowed,
    judge,
    read_rules,
)
from agh.core.shell.commands import analyse

WORK = "/home/me/project"
SHELL = ("; rm x", " && rm x", " | sh", " > x", "\nrm x", " $(rm x)", " `rm x`")


def asking(
    kind: str = "edit", name: str | None = None, path: str | None = None, command: str | None = None
) -> Asking:
    return Asking(kind, name, () if path is None else (path,), command)


@pytest.mark.parametrize(
    ("rule", "asked", "matches"),
    [
        ({"kind": "edit"}, asking("edit"), True),
        ({"kind": "edit"}, asking("delete"), False),
        ({"kind": "*"}, asking("delete"), True),
        ({"kind": "e*"}, asking("execute"), True),
        ({"kind": "Edit"}, asking("edit"), False),
        ({"name": "Bash"}, asking(name="Bash"), True),
        ({"name": "mcp__*"}, asking(name="mcp__db__drop"), True),
        ({"name": "Bash"}, asking(), False),
        ({"path": "src/*"}, asking(path=f"{WORK}/src/a.py"), True),
        ({"path": "src/*"}, asking(path=f"{WORK}/src/deep/a.py"), True),
        ({"path": "src/*"}, asking(path=f"{WORK}/lib/a.py"), False),
        ({"path": "src/*"}, asking(path=f"{WORK}/srcs/a.py"), False),
        ({"path": "src/*"}, asking(path="/elsewhere/src/a.py"), False),
        ({"path": "*"}, asking(path=f"{WORK}/a.py"), True),
        ({"path": "*"}, asking(path="/etc/passwd"), False),
        ({"path": "*"}, asking(), False),
        ({"path": "/etc/*"}, asking(path="/etc/passwd"), True),
        ({"path": "*.py"}, asking(path=f"{WORK}/deep/a.py"), True),
        ({"path": "?.py"}, asking(path=f"{WORK}/ab.py"), False),
        ({"path": "[ab].py"}, asking(path=f"{WORK}/b.py"), True),
        ({"command": "git *"}, asking("execute", command="git push"), True),
        ({"command": "git *"}, asking("execute", command="git"), False),
        ({"command": "*"}, asking("execute"), False),
        ({"kind": "edit", "path": "src/*"}, asking("edit", path=f"{WORK}/src/a.py"), True),
        ({"kind": "edit", "path": "src/*"}, asking("read", path=f"{WORK}/src/a.py"), False),
        (
            {"kind": "execute", "name": "B*", "command": "ls*"},
            asking("execute", "Bash", command="ls -l"),
            True,
        ),
        (
            {"kind": "execute", "name": "B*", "command": "ls*"},
            asking("execute", "Sh", command="ls -l"),
            False,
        ),
    ],
)
def test_a_rule_matches_when_all_its_patterns_do(rule: dict[str, str], asked: Asking, matches: bool) -> None:
    for decision in ("allow", "deny", "ask"):
        found = decide(read_rules([{"decision": decision, **rule}]), asked, WORK)
        assert found == (decision if matches else None)


def test_the_first_that_matches_decides() -> None:
    rules = read_rules(
        [
            {"decision": "deny", "path": ".env"},
            {"decision": "allow", "kind": "edit"},
            {"decision": "deny", "kind": "edit", "path": "src/*"},
            {"decision": "ask", "kind": "*"},
        ]
    )
    assert decide(rules, asking("edit", path=f"{WORK}/.env"), WORK) == "deny"
    assert decide(rules, asking("read", path=f"{WORK}/.env"), WORK) == "deny"
    assert decide(rules, asking("edit", path=f"{WORK}/src/a.py"), WORK) == "allow"
    assert decide(rules, asking("read"), WORK) == "ask"
    assert decide([], asking(), WORK) is None


@pytest.mark.parametrize("workspace", ["/", "/w", "/w/"])
def test_a_path_is_taken_from_the_workspace_on(workspace: str) -> None:
    (rule,) = read_rules([{"decision": "allow", "path": "a.txt"}])
    inside = f"{workspace.rstrip('/')}/a.txt"
    assert decide([rule], asking(path=inside), workspace) == "allow"
    assert decide([rule], asking(path="/other/a.txt"), workspace) is None


@pytest.mark.parametrize("workspace", ["/w/[old] project", "/w/a[b-c]"])
def test_the_workspaces_name_is_not_a_pattern(workspace: str) -> None:
    (rule,) = read_rules([{"decision": "deny", "path": "secrets/*"}])
    assert decide([rule], asking(path=f"{workspace}/secrets/key"), workspace) == "deny"


def test_nor_does_it_reach_into_another_workspace() -> None:
    (rule,) = read_rules([{"decision": "allow", "path": "*"}])
    assert decide([rule], asking(path="/w/project-b/x"), "/w/project-*") is None


@pytest.mark.parametrize(
    ("rules", "decision"),
    [
        ("allow a.txt", None),
        ("allow a.txt, allow b.txt", "allow"),
        ("allow ?.txt", "allow"),
        ("deny b.txt, allow *", "deny"),
        ("allow a.txt, deny b.txt", "deny"),
        ("ask b.txt, allow *", "ask"),
        pytest.param(
            "ask a.txt, deny b.txt",
            "deny",
        ),
        ("deny c.txt", None),
    ],
)
def test_of_several_paths_the_strictest_decision_counts(rules: str, decision: str | None) -> None:
    given_rules = [dict(zip(("decision", "path"), one.split(), strict=True)) for one in rules.split(", ")]
    both = Asking("edit", paths=(f"{WORK}/a.txt", f"{WORK}/b.txt"))
    assert decide(read_rules(given_rules), both, WORK) == decision


PATTERN_TEXTS = st.text(alphabet="ab*?[]!-^.\\/ \n", min_size=1, max_size=8)


@settings(deadline=None)
@given(PATTERN_TEXTS, PATTERN_TEXTS)
def test_exactly_matches_one_text_only(text: str, other: str) -> None:
    rule = Rule("allow", command=exactly(text))
    assert decide([rule], asking("execute", command=text), WORK) == "allow"
    if decide([rule], asking("execute", command=other), WORK) == "allow" and text != other:
        assert runs(other) <= runs(text), "the same commands, with other space between them"


def runs(command: str) -> set[str | None]:
    return {unit.known for unit in analyse(command).units if not unit.extra} - {""}


@pytest.mark.parametrize(
    "command", ["sudo git push", "git status; git push", "sh -c 'git push'", "$(git push)"]
)
def test_a_command_inside_another_is_forbidden_but_not_allowed(command: str) -> None:
    request = asking("execute", command=command)
    for decision in ("deny", "ask"):
        assert decide(read_rules([{"decision": decision, "command": "git push*"}]), request, WORK) == decision
    allowed = decide(read_rules([{"decision": "allow", "command": "git push*"}]), request, WORK)
    assert allowed == ("allow" if command.startswith("sh") else None)


def test_what_a_rule_cannot_see_leaves_a_doubt() -> None:
    """It forbids nothing by itself, but nothing is allowed without a person either."""
    (rule,) = read_rules([{"decision": "deny", "path": ".env"}])
    for request in (asking("read"), asking("execute", command="cat $FILE")._replace(words=(f"{WORK}/\0",))):
        assert judge([rule], request, WORK) == Judgement(None, None, rule)
    assert judge([rule], asking("fetch"), WORK) == Judgement()
    assert judge([rule], asking("execute", command="ls")._replace(words=(f"{WORK}/ls",)), WORK) == Judgement()


def test_the_words_of_a_command_are_held_against_path_rules_that_forbid() -> None:
    request = asking("execute", command="cat .env")._replace(words=(f"{WORK}/cat", f"{WORK}/.env"))
    assert decide(read_rules([{"decision": "deny", "path": ".env"}]), request, WORK) == "deny"
    assert decide(read_rules([{"decision": "allow", "path": ".env"}]), request, WORK) is None


@pytest.mark.parametrize("text", ["ls *", "rm [ab]?", "a[!b]c", "[[", "]", "[]", "a]b[c", "*?[", "ls\n-l"])
def test_exactly_takes_patterns_for_what_they_are(text: str) -> None:
    rule = Rule("allow", command=exactly(text))
    assert decide([rule], asking("execute", command=text), WORK) == "allow"
    assert decide([rule], asking("execute", command=text + "x"), WORK) is None
    assert decide([rule], asking("execute", command=text.replace("*", "anything", 1) + "y"), WORK) is None


@pytest.mark.parametrize(
    ("given_rules", "said"),
    [
        ({}, "list of tables"),
        ("allow", "list of tables"),
        (["allow"], "rule 1 is not a table"),
        ([{"decision": "allow"}], "at least one of kind, name, path, command"),
        ([{"decision": "permit", "kind": "edit"}], "decision must be one of"),
        ([{"kind": "edit"}], "decision must be one of"),
        (
            [{"decision": "allow", "kind": "edit"}, {"decision": "deny", "tool": "x"}],
            "rule 2: unknown key 'tool'; allowed: decision, kind, name, path, command",
        ),
        ([{"decision": "allow", "kind": 7}], "as a string"),
        ([{"decision": "allow", "kind": ["edit", "read"]}], "as a string"),
        ([{"decision": ["allow"], "kind": "edit"}], "decision must be one of"),
    ],
)
def test_what_is_wrong_with_a_rule_is_said(given_rules: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_rules(given_rules)


@pytest.mark.parametrize(
    ("tools", "asking", "allowed"),
    [
        (["edit"], Asking("edit", "Write", (f"{WORK}/a",)), True),
        (["Write"], Asking("edit", "Write", (f"{WORK}/a",)), True),
        (["write"], Asking("edit", "Write", (f"{WORK}/a",)), False),
        (["mcp__db__*"], Asking("other", "mcp__db__query"), True),
        (["edit(src/*)"], Asking("edit", "Write", (f"{WORK}/src/a",)), True),
        (["edit(src/*)"], Asking("edit", "Write", (f"{WORK}/lib/a",)), False),
        (["edit(src/*)"], Asking("edit", "Write", (f"{WORK}/src/a", f"{WORK}/lib/a")), False),
        (["execute(git *)"], Asking("execute", "Bash", (), "git log"), True),
        (["Bash(git log:*)"], Asking("execute", "Bash", (), "git log"), True),
        (["Bash(git log:*)"], Asking("execute", "Bash", (), "git log --oneline"), True),
        (["Bash(git log:*)"], Asking("execute", "Bash", (), "git logs"), False),
        (["Bash(git:*)"], Asking("execute", "Shell", (), "git log"), False),
        *((["Bash(git:*)"], Asking("execute", "Bash", (), f"git log{more}"), False) for more in SHELL),
        (["Bash"], Asking("execute", "Bash", (), "git log; rm x"), True),
        ([], Asking("read", "Read"), False),
    ],
)
def test_tools_that_are_allowed(tools: list[str], asking: Asking, allowed: bool) -> None:
    assert is_allowed(tools, asking, WORK) is allowed


@pytest.mark.parametrize("tool", ["", "a b", "edit(", "edit)", "edit()", "(x)", "edit(x)y"])
def test_what_is_no_tool(tool: str) -> None:
    with pytest.raises(ValueError, match="is not a tool"):
        allow_rules([tool])
