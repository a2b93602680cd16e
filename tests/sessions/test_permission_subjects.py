"""What is shown is what is granted: a request is judged by all that the agent has said about it, anywhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.live import Live, Session, Share
from tests.support.permissions import STAYS, outcomes, pending, raw, raw_request, requests
from tests.support.wait import wait_until

APPROVE_ALL = ("--permissions", "approve-all")
STRICT = "[permissions]\ntimeout = '0.2s'\n" + "".join(
    f"[[permissions.rules]]\ndecision = 'deny'\n{rule}\n"
    for rule in ("path = '.env'", "path = 'secrets/*'", "command = 'rm *'")
)


def update(tool: dict[str, Any], call: str = "raw", kind: str = "tool_call") -> str:
    """Return a step that reports a tool call."""
    fields = {"sessionUpdate": kind, "toolCallId": call, "title": "raw", **tool}
    params = {"update": fields}
    return "/raw " + json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params})


def shown(session: Session) -> dict[str, Any]:
    """Return the only request that waits, as a program sees it."""
    pending(session)
    (row,) = json.loads(session.agh("permissions", "-o", "json").stdout)["permissions"]
    return dict(row)


def decided(session: Session, count: int) -> list[tuple[str | None, str | None]]:
    wait_until(lambda: len(requests(session)) == count and all(one.decision for one in requests(session)))
    return outcomes(session)


KEYS = (
    *(
        "path",
        "file_path",
        "filePath",
        "filepath",
        "abs_path",
        "absolute_path",
        "notebook_path",
        "target_file",
    ),
    *("dir_path", "directory", "cwd", "relative_workspace_path", "source", "destination", "file", "uri"),
)


@pytest.mark.parametrize("key", KEYS)
def test_a_path_under_any_name(shared_with: Share, tmp_path: Path, key: str) -> None:
    """Outside, it is asked about; denied, it is denied."""
    session = shared_with(STRICT, *APPROVE_ALL)
    prefix = "file://" if key == "uri" else ""
    inputs = [
        f"{prefix}{tmp_path}/outside.txt",
        f"{prefix}{session.live.workspace}/.env",
        f"{prefix}{session.live.workspace}/a",
    ]
    steps = [raw_request({"kind": "edit", "rawInput": {"nested": [{key: path}]}}) for path in inputs]
    session.send("\n".join(steps) + STAYS)
    assert decided(session, 3) == [("denied", "timeout"), ("denied", "rule"), ("allowed", "mode")]


@pytest.mark.parametrize(
    "tool",
    [
        {"locations": [{"path": "{}"}]},
        {"content": [{"type": "diff", "path": "{}", "oldText": "", "newText": "x"}]},
        {"content": [{"type": "content", "content": {"type": "resource_link", "uri": "file://{}"}}]},
        {"rawInput": {"changes": {"{}": {"type": "update"}}}},
        {"rawInput": '{{"file_path": "{}"}}'},
        {"rawInput": {"paths": ["a", "{}"]}},
    ],
)
def test_a_path_in_any_field(shared_with: Share, tool: dict[str, Any]) -> None:
    session = shared_with(STRICT, *APPROVE_ALL)
    text = json.dumps({"kind": "edit", **tool})
    path = str(session.live.workspace / ".env")
    text = text.replace("{{", "{").replace("{}", path).replace('\\"}}', '\\"}')
    session.send(raw_request(json.loads(text)) + STAYS)
    assert decided(session, 1) == [("denied", "rule")]


def test_a_request_is_joined_with_its_tool_call(shared_with: Share) -> None:
    """Agents may say nothing but the id, or something harmless, in the request itself."""
    session = shared_with(STRICT, *APPROVE_ALL)
    steps = [update({"kind": "execute", "rawInput": {"command": "rm -rf x"}}), raw_request({})]
    steps.append(raw_request({"kind": "read", "locations": [{"path": "a.txt"}]}))
    session.send("\n".join(steps) + STAYS)
    assert decided(session, 2) == [("denied", "rule")] * 2


def test_a_request_that_says_nothing_is_judged_by_the_open_tool_calls(
    shared_with: Share, tmp_path: Path
) -> None:
    session = shared_with(STRICT, *APPROVE_ALL)
    silent = {"toolCallId": "unrelated"}
    session.send(
        "\n".join(
            [
                raw_request(silent),
                update(
                    {"kind": "edit", "locations": [{"path": str(session.live.workspace / "a.txt")}]}, "one"
                ),
                raw_request(silent),
                update({"kind": "edit", "locations": [{"path": str(tmp_path / "b.txt")}]}, "two"),
                raw_request(silent),
            ]
        )
        + STAYS
    )
    assert decided(session, 3) == [("denied", "timeout"), ("allowed", "mode"), ("denied", "timeout")]
    assert session.events("permission")[0].content["unclear"] is True


@pytest.mark.parametrize(
    "tool",
    [
        {"rawInput": {"command": "cat a.txt"}, "locations": [{"path": "a.txt"}]},
        {"rawInput": {}},
        {"locations": [{"path": "/etc/passwd"}]},
        {"locations": [{"path": "~/.ssh/id_rsa"}]},
        {"locations": [{"path": "a.txt"}, {"path": "../b.txt"}]},
    ],
)
def test_reading_that_is_not_only_reading_is_asked(shared_with: Share, tool: dict[str, Any]) -> None:
    session = shared_with()
    session.send(raw_request({"kind": "read", "locations": [{"path": "a.txt"}]}) + STAYS)
    assert decided(session, 1) == [("allowed", "mode")]
    session.call("cancel")
    session.wait_idle()
    session.send(raw_request({"kind": "read", **tool}) + STAYS)
    assert pending(session).status == "pending"


def test_a_path_that_cannot_be_resolved_is_asked_also_when_a_rule_allows_its_kind(live: Live) -> None:
    live.configure("[[permissions.rules]]\ndecision = 'allow'\nkind = 'edit'\n")
    session = live.new(args=APPROVE_ALL)
    session.send(raw_request({"kind": "edit", "locations": [{"path": "x" * 5000}]}) + STAYS)
    assert str(pending(session).resource).startswith("unresolved:")


def test_a_rule_without_a_path_does_not_allow_what_is_outside(live: Live, tmp_path: Path) -> None:
    live.configure(
        f"[[permissions.rules]]\ndecision = 'allow'\npath = '{tmp_path}/named'\n"
        "[[permissions.rules]]\ndecision = 'allow'\nkind = 'edit'\n"
    )
    session = live.new()
    session.tell(raw_request({"kind": "edit", "locations": [{"path": str(tmp_path / "named")}]}))
    assert outcomes(session) == [("allowed", "rule")]
    session.send(raw_request({"kind": "edit", "locations": [{"path": str(tmp_path / "other")}]}) + STAYS)
    assert pending(session).resource == str(tmp_path / "other")


def test_the_words_of_a_command_are_not_paths_but_what_is_denied_is_seen(shared_with: Share) -> None:
    session = shared_with(STRICT, *APPROVE_ALL)
    commands = (
        "ls /etc",
        "cat secrets/key",
        "cd secrets && cat key",
        "cat < secrets/key",
        "cat sec*/key",
    )
    session.send(
        "\n".join(raw_request({"kind": "execute", "rawInput": {"command": one}}) for one in commands) + STAYS
    )
    denied = ("denied", "rule")
    assert decided(session, 5) == [("allowed", "mode"), denied, denied, denied, ("denied", "timeout")]


def test_what_is_shown(shared_with: Share) -> None:
    """In agh's own words first; what the agent calls it comes last and is marked as such."""
    session = shared_with()
    (session.live.workspace / "a.txt").write_text("one\ntwo\n")
    diff = {
        "type": "diff",
        "path": str(session.live.workspace / "a.txt"),
        "oldText": "one\ntwo\n",
        "newText": "one\n2\n",
    }
    paths = [{"path": str(session.live.workspace / "a.txt")}, {"path": "/etc/hosts"}]
    tool = {"kind": "edit", "title": "Read README", "locations": paths, "content": [diff]}
    session.send(raw_request(tool) + STAYS)
    row = shown(session)
    about = f"edit: /etc/hosts (outside the workspace), {session.live.workspace}/a.txt"
    assert (row["about"], row["title"], row["outside"]) == (about, "Read README", ["/etc/hosts"])
    assert row["paths"] == ["/etc/hosts", f"{session.live.workspace}/a.txt"]
    assert row["diff"].splitlines()[-2:] == ["-two", "+2"]
    lines = session.agh("permissions").stdout.splitlines()
    assert lines[0].endswith(about) and lines[-1].strip() == "the agent calls it: Read README"
    assert "    -two" in lines
    event = session.events("permission")[0].content
    assert {key: event[key] for key in ("paths", "outside", "diff")} == {
        key: row[key] for key in ("paths", "outside", "diff")
    }


def test_the_whole_command_is_shown(shared_with: Share) -> None:
    session = shared_with()
    command = "true " + "x" * 500 + " && rm -rf /"
    session.send(
        raw_request({"kind": "execute", "title": "List files", "rawInput": {"command": command}}) + STAYS
    )
    assert shown(session)["about"] == f"run: {command}"
    assert "rm -rf /" in session.agh("permissions").stdout.splitlines()[0]


def test_a_write_shows_what_it_changes(shared_with: Share) -> None:
    session = shared_with()
    (session.live.workspace / "a.txt").write_text("one\n")
    session.send("/write a.txt two" + STAYS)
    assert shown(session)["diff"].splitlines()[-2:] == ["-one", "+two"]


def test_a_grant_is_for_what_was_shown_and_that_tool_call(shared_with: Share) -> None:
    """Reading and writing the file is part of it; another file, or the same one later, is not."""
    session = shared_with()
    shown_call = {"kind": "edit", "locations": [{"path": str(session.live.workspace / "a.txt")}]}
    session.send(
        update(shown_call) + "\n" + raw_request(shown_call) + "\n/sleep 0.5\n/write a.txt x\n/write b.txt x"
    )
    session.decide("allow")
    wait_until(lambda: len(requests(session)) == 3)
    assert outcomes(session) == [("allowed", "user"), ("allowed", "this turn"), (None, None)]
    session.decide("deny")
    session.wait_idle()
    assert (session.live.workspace / "a.txt").exists() and not (session.live.workspace / "b.txt").exists()


def test_a_grant_ends_with_its_tool_call(shared_with: Share) -> None:
    session = shared_with()
    session.send("/change a.txt x\n/write a.txt y")
    session.decide("allow")
    wait_until(lambda: len(requests(session)) == 3)
    assert outcomes(session) == [("allowed", "user"), ("allowed", "this turn"), (None, None)]


@pytest.mark.parametrize(
    ("shown_command", "run", "is_covered"),
    [
        ("touch a", {"command": "touch", "args": ["a"]}, True),
        ("touch a", {"command": "/bin/sh", "args": ["-c", "touch a"]}, True),
        ("touch a; touch b", {"command": "touch a; touch b"}, True),
        ("touch a", {"command": "touch", "args": ["a", "b"]}, False),
        ("touch 'a b'", {"command": "touch", "args": ["a", "b"]}, False),
        ("touch a", {"command": "touch", "args": ["a"], "env": [{"name": "PATH", "value": "/tmp"}]}, False),
        ("touch a", {"command": "touch", "args": ["a"], "env": [{"name": "NO_COLOR", "value": "1"}]}, True),
    ],
)
def test_a_grant_for_a_command(
    shared_with: Share, shown_command: str, run: dict[str, Any], is_covered: bool
) -> None:
    session = shared_with()
    tool = {"kind": "execute", "rawInput": {"command": shown_command}}
    session.send(
        update(tool) + "\n" + raw_request(tool) + "\n/sleep 0.5\n" + raw("terminal/create", run) + STAYS
    )
    session.decide("allow")
    wait_until(lambda: len(requests(session)) == 2)
    assert outcomes(session)[1] == (("allowed", "this turn") if is_covered else (None, None))
