"""Nobody watches: what an agent asks for waits, is answered from anywhere, or is refused in time."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.support.live import ECHO, Live, Share
from tests.support.permissions import STAYS, answers, outcomes, pending, raw, raw_request, received, requests
from tests.support.wait import wait_until


def test_answered_from_another_terminal_though_the_viewer_was_killed(live: Live) -> None:
    session = live.new()
    viewer = session.start_prompt("/ask path=a.txt Edit a.txt\n/say went on")
    result = session.agh("wait", "--until", "permission", "--timeout", "20s", "-o", "json")
    waiting = json.loads(result.stdout)["session"]
    status = session.status()
    (listed,) = json.loads(live.agh("session", "list", "-o", "json").stdout)["sessions"]
    for view in (waiting, status, listed):
        assert (view["phase"], view["badge"]) == ("waiting_for_permission", "waiting-for-input")
    viewer.kill()
    viewer.communicate(timeout=20)
    (row,) = json.loads(session.agh("permissions", "-o", "json").stdout)["permissions"]
    assert row["resource"] == str(live.workspace / "a.txt")
    session.agh("approve", row["request_id"])
    session.wait_idle()
    assert session.text() == "permission: allow_once\nwent on"
    assert session.inputs() == [("sent", "/ask path=a.txt Edit a.txt\n/say went on")]
    opened, decided = (event.content for event in session.events("permission"))
    assert "decision" not in opened
    assert (opened["action"], opened["resource"], opened["title"]) == ("edit", row["resource"], "Edit a.txt")
    assert (decided["decision"], decided["decided_by"]) == ("allowed", "user")
    assert opened["request_id"] == decided["request_id"] == row["request_id"]
    assert opened["tool_call_id"] == decided["tool_call_id"]
    (request,) = requests(session)
    assert (request.status, request.option_id) == ("decided", "yes")
    wait_until(lambda: session.status()["phase"] == "idle")


def test_two_wait_and_each_has_its_own_answer(shared_with: Share) -> None:
    session = shared_with()
    session.send("\n".join(raw_request({"kind": kind}) for kind in ("move", "delete")) + STAYS)
    wait_until(lambda: len(requests(session)) == 2)
    _, newer = requests(session)
    session.agh("deny", newer.request_id)
    session.agh("approve")
    assert outcomes(session) == [("allowed", "user"), ("denied", "user")]


def test_of_two_answers_at_once_one_counts(shared_with: Share) -> None:
    session = shared_with()
    session.send("/ask path=a.txt")
    request = pending(session).request_id
    racers = [session.live.start("session", verb, session.id, request) for verb in ("approve", "deny")]
    for racer in racers:
        racer.communicate(timeout=20)
    codes = [racer.returncode for racer in racers]
    assert sorted(codes) == [0, 4]
    session.wait_idle()
    allowed = codes[0] == 0
    assert session.text() == f"permission: {'allow' if allowed else 'reject'}_once"
    assert session.count("permission") == 2


def test_an_answer_survives_neither_asker_nor_viewer_but_the_session_does(live: Live) -> None:
    """The keeper dies while the request waits: it is closed, the turn is interrupted, the session goes on."""
    session = live.new()
    viewer = session.start_prompt("/ask path=a.txt")
    request = pending(session)
    session.kill_keeper()
    viewer.communicate(timeout=20)
    assert viewer.returncode == 7
    assert session.error("approve", request.request_id, code=7)["code"] == "keeper_gone"
    assert session.say("/ask kind=read path=a.txt") == "permission: allow_once"
    assert outcomes(session) == [("expired", None), ("allowed", "mode")]
    assert [status for status, _ in session.inputs()] == ["interrupted", "sent"]


def test_unanswered_it_is_the_agents_reject_once_at_the_timeout(live: Live) -> None:
    live.configure("[permissions]\ntimeout = '0.5s'")
    session = live.new()
    started = time.monotonic()
    assert answers(session.tell("/ask path=a.txt\n/ask-reject-only path=b.txt")) == ["reject_once"] * 2
    assert time.monotonic() - started >= 1.0
    assert [(request.decision, request.option_id, request.decided_by) for request in requests(session)] == [
        ("denied", "no", "timeout")
    ] * 2
    session.send(raw_request({"kind": "edit"}, ("allow_once", "allow_always")) + STAYS)
    wait_until(lambda: len(requests(session)) == 3)
    wait_until(lambda: requests(session)[-1].decision, what="the timeout")
    assert requests(session)[-1][4:] == ("cancelled", None, "timeout"), "there was nothing to reject with"


def test_an_offer_of_rejections_only_is_never_approved(live: Live) -> None:
    rules = "".join(f"[[permissions.rules]]\ndecision='allow'\nkind='{kind}'\n" for kind in ("move", "read"))
    live.configure(rules)
    session = live.new(args=("--permissions", "approve-all"))
    reply = session.tell(
        "/ask-reject-only path=a.txt\n/ask-reject-only kind=move\n/ask-reject-only kind=read"
    )
    assert answers(reply) == ["cancelled"] * 3
    assert outcomes(session) == [("cancelled", "mode"), ("cancelled", "rule"), ("cancelled", "rule")]
    session.stop()
    live.configure("")
    session = live.new()
    for verb in (("approve",), ("approve", "--always")):
        session.send("/ask-reject-only path=a.txt")
        pending(session)
        assert session.error(*verb, code=2)["code"] == "permission_not_offered"
        session.agh("deny")
        session.wait_idle()
    assert session.text() == "permission: reject_once" * 2
    session.send("/ask path=a.txt")
    assert pending(session).status == "pending", "a consent that could not be given is not remembered"


READS = ("read", "search", "think")
WRITES = ("edit", "delete", "move", "execute", "fetch", "other")


@pytest.mark.parametrize(
    ("mode", "read", "write", "by"),
    [
        ("deny-all", "reject_once", "reject_once", "mode"),
        ("approve-reads", "allow_once", "reject_once", "timeout"),
        ("approve-all", "allow_once", "allow_once", "mode"),
    ],
)
def test_modes(live: Live, mode: str, read: str, write: str, by: str) -> None:
    live.configure(f"[permissions]\ntimeout = '0.1s'\nmode = '{mode}'")
    session = live.new()
    said = session.tell("\n".join(f"/ask kind={kind} path=a.txt" for kind in (*READS, *WRITES)))
    assert answers(said) == [read] * len(READS) + [write] * len(WRITES)
    assert [one.decided_by for one in requests(session)] == ["mode"] * len(READS) + [by] * len(WRITES)


def test_the_sessions_own_mode_wins_over_the_configured_one(live: Live) -> None:
    live.configure("[permissions]\nmode = 'deny-all'")
    session = live.new(args=("--permissions", "approve-all"))
    assert session.tell("/ask path=a.txt") == "permission: allow_once"
    session.kill_keeper()
    assert session.say("/ask path=a.txt") == "permission: allow_once", "also after a restart"


def test_an_agents_own_mode_and_limits(live: Live) -> None:
    live.configure("[permissions]\nmode = 'deny-all'")
    (live.home / "agents").mkdir()
    (live.home / "agents" / "trusted.toml").write_text(
        f"argv = {list(ECHO)!r}\npermissions = 'approve-all'\nlimits = {{ max_turns = 1 }}\n"
    )
    result = live.agh("session", "new", "--agent", "trusted")
    session = live.session(result.stdout.strip())
    assert session.tell("/ask path=a.txt") == "permission: allow_once"
    wait_until(lambda: not session.is_live())
    assert session.meta()["stop_reason"] == "max_turns"


def test_always_is_remembered_in_the_session(live: Live) -> None:
    session = live.new()
    session.send("/ask path=a.txt")
    pending(session)
    session.agh("approve", "--always")
    session.wait_idle()
    session.send("/ask path=b.txt")
    pending(session)
    session.agh("deny", "--always")
    session.wait_idle()
    again = "/ask path=a.txt\n/ask path=b.txt"
    assert answers(session.tell(again)) == ["allow_once", "reject_once"]
    session.stop()
    assert answers(session.say(again)) == ["allow_once", "reject_once"]
    session.kill_keeper()
    assert answers(session.say(again)) == ["allow_once", "reject_once"]
    assert outcomes(session)[2:] == [("allowed", "session"), ("denied", "session")] * 3
    session.send("/ask path=c.txt\n/ask kind=delete path=a.txt")
    assert pending(session).resource == str(live.workspace / "c.txt"), "another path is another question"
    session.decide("deny")
    assert pending(session).action == "delete", "and so is another kind"


def test_always_is_not_told_to_other_sessions(live: Live) -> None:
    first, second = live.new(), live.new()
    first.send("/ask path=a.txt")
    pending(first)
    first.decide("allow_always")
    second.send("/ask path=a.txt")
    assert pending(second).status == "pending"


def test_always_for_one_command_is_not_for_all_commands(shared_with: Share) -> None:
    session = shared_with()
    session.send(raw_request({"kind": "execute", "rawInput": {"command": ["bash", "-lc", "ls"]}}) + STAYS)
    assert pending(session).resource == "bash -lc ls"
    session.decide("allow_always")
    session.call("cancel")
    session.wait_idle()
    session.send(
        raw_request({"kind": "execute", "rawInput": {"command": ["bash", "-lc", "rm -rf x"]}}) + STAYS
    )
    assert pending(session).status == "pending"


def test_always_for_an_edit_of_two_files(shared_with: Share) -> None:
    session = shared_with()
    paths = [{"path": str(session.live.workspace / name)} for name in ("c.txt", "d.txt")]
    both = raw_request({"kind": "edit", "locations": paths})
    session.send(both + STAYS)
    pending(session)
    session.decide("allow_always")
    session.call("cancel")
    session.wait_idle()
    session.tell(both)
    assert outcomes(session)[1] == ("allowed", "session")


def test_an_approved_edit_is_not_asked_for_again_when_it_is_written(shared_with: Share) -> None:
    session = shared_with()
    session.send("/change a.txt written\n/write b.txt other")
    pending(session)
    session.agh("approve")
    wait_until(lambda: len(requests(session)) == 3)
    other = pending(session)
    assert other.resource == str(session.live.workspace / "b.txt")
    assert (session.live.workspace / "a.txt").read_text() == "written"
    session.agh("deny")
    session.wait_idle()
    assert outcomes(session) == [("allowed", "user"), ("allowed", "this turn"), ("denied", "user")]
    assert not (session.live.workspace / "b.txt").exists()
    session.send("/write a.txt again")
    assert pending(session).resource == str(session.live.workspace / "a.txt"), (
        "the consent was for that tool call"
    )


def test_nor_when_a_rule_says_ask(live: Live) -> None:
    live.configure("[[permissions.rules]]\ndecision = 'ask'\nkind = 'edit'")
    session = live.new(args=("--permissions", "approve-all"))
    session.send("/change a.txt written")
    pending(session)
    session.agh("approve")
    wait_until(lambda: len(requests(session)) == 2)
    assert outcomes(session) == [("allowed", "user"), ("allowed", "this turn")]
    session.wait_idle()
    assert (live.workspace / "a.txt").read_text() == "written"


def test_a_refused_edit_is_refused_when_it_is_written(live: Live) -> None:
    live.configure("[permissions]\ntimeout = '0.2s'")
    session = live.new()
    reply = session.tell("/ask path=a.txt\n/write a.txt written\n/run touch ran.txt")
    assert "write a.txt: error -32001" in reply
    assert "run touch ran.txt: error -32001" in reply
    assert outcomes(session) == [("denied", "timeout")] * 3
    assert list(live.workspace.iterdir()) == []


RULES = """
[permissions]
timeout = '0.2s'
[[permissions.rules]]
decision = 'deny'
path = 'secrets/*'
[[permissions.rules]]
decision = 'allow'
kind = 'edit'
path = 'src/*'
[[permissions.rules]]
decision = 'deny'
kind = 'edit'
path = 'src/vendored.py'
[[permissions.rules]]
decision = 'ask'
command = 'git push*'
[[permissions.rules]]
decision = 'allow'
command = 'git *'
[[permissions.rules]]
decision = 'deny'
name = 'Bash'
[[permissions.rules]]
decision = 'allow'
kind = 'fetch'
"""


def test_rules_decide_before_the_mode_and_the_first_that_matches_counts(live: Live) -> None:
    live.configure(RULES)
    session = live.new(args=("--permissions", "approve-all"))
    named = {"claudeCode": {"toolName": "Bash"}}
    asked = {
        "/ask kind=read path=secrets/key": ("denied", "rule"),
        "/ask kind=edit path=src/a.py": ("allowed", "rule"),
        "/ask kind=edit path=src/deep/b.py": ("allowed", "rule"),
        "/ask kind=edit path=src/vendored.py": ("allowed", "rule"),  # an earlier rule allows it
        "/ask kind=delete path=src/a.py": ("allowed", "mode"),
        "/ask kind=fetch": ("allowed", "rule"),
        raw_request({"kind": "execute", "rawInput": {"command": "git push -f"}}): ("denied", "timeout"),
        raw_request({"kind": "execute", "rawInput": {"command": "git status"}}): ("allowed", "rule"),
        raw_request({"kind": "execute", "rawInput": {"command": "make"}}): ("allowed", "mode"),
        raw_request({"kind": "execute", "_meta": named, "rawInput": {"command": "make"}}): ("denied", "rule"),
        raw_request({"kind": "execute", "_meta": named, "rawInput": {"command": "git log"}}): (
            "allowed",
            "rule",
        ),
        "/write src/made.py x": ("allowed", "rule"),
        "/write secrets/key x": ("denied", "rule"),
        raw("terminal/create", {"command": "git", "args": ["push"]}): ("denied", "timeout"),
    }
    session.send("\n".join(asked) + STAYS)
    wait_until(lambda: len(requests(session)) == len(asked))
    wait_until(lambda: all(request.decision for request in requests(session)))
    assert dict(zip(asked, outcomes(session), strict=True)) == asked
    assert (live.workspace / "src" / "made.py").read_text() == "x"
    assert not (live.workspace / "secrets").exists()


def test_a_workspaces_rules_win(live: Live) -> None:
    live.trust("[[permissions.rules]]\ndecision = 'allow'\nkind = '*'")
    (live.workspace / ".agh").mkdir()
    rules = "[[permissions.rules]]\ndecision = 'deny'\nkind = 'edit'"
    (live.workspace / ".agh" / "config.toml").write_text(rules)
    session = live.new()
    said = session.tell("/ask path=a.txt\n/ask kind=read path=a.txt")
    assert answers(said) == ["reject_once", "allow_once"]
    assert outcomes(session) == [("denied", "rule"), ("allowed", "rule")]


def test_a_denied_thing_is_denied_however_it_is_worded(live: Live) -> None:
    denied = ("path = '.env'", "command = '*rm *'")
    live.configure("".join(f"[[permissions.rules]]\ndecision = 'deny'\n{one}\n" for one in denied))
    session = live.new(args=("--permissions", "approve-all"))
    secret = str(live.workspace / ".env")
    tools: tuple[dict[str, Any], ...] = (
        {"kind": "execute", "rawInput": {"command": ["bash", "-lc", "rm -rf x"]}},
        {"kind": "edit", "locations": [{"path": str(live.workspace / "a.txt")}, {"path": secret}]},
        {"kind": "edit", "content": [{"type": "diff", "path": secret, "newText": "x"}]},
        {"kind": "edit", "rawInput": {"file_path": secret}},
    )
    session.tell("\n".join(map(raw_request, tools)))
    assert outcomes(session) == [("denied", "rule")] * len(tools)


def test_allowed_for_one_path_is_not_allowed_for_two(live: Live) -> None:
    live.configure("[[permissions.rules]]\ndecision = 'allow'\npath = 'a.txt'")
    session = live.new()
    paths = [{"path": str(live.workspace / name)} for name in ("a.txt", "b.txt")]
    session.send(raw_request({"kind": "edit", "locations": paths}) + STAYS)
    wait_until(lambda: requests(session))
    assert requests(session)[0].decision is None


def test_a_denied_command_is_denied_as_a_shell_line(live: Live) -> None:
    live.configure("[[permissions.rules]]\ndecision = 'deny'\ncommand = 'touch *'")
    session = live.new(args=("--permissions", "approve-all"))
    session.tell(raw("terminal/create", {"command": "touch ran.txt; true"}))
    wait_until(lambda: all(request.decision for request in requests(session)))
    assert outcomes(session) == [("denied", "rule")]


def test_the_agent_learns_only_what_was_decided(live: Live) -> None:
    """What the keeper answers is on disk before the agent has it."""
    session = live.new()
    session.send("/ask path=a.txt\n/say x")
    pending(session)
    session.decide("allow")
    session.wait_idle()
    kinds = [one.type for one in session.events("permission", "agent_message")]
    assert kinds[:3] == ["permission", "permission", "agent_message"]
    assert received(session) == ["/ask path=a.txt\n/say x"]


def test_what_nobody_answered_is_closed_with_its_turn(shared_with: Share) -> None:
    session = shared_with()
    session.tell(raw_request({"kind": "edit"}) + "\n/say done already")
    assert outcomes(session) == [("cancelled", "turn_end")]
    wait_until(lambda: session.status()["phase"] == "idle")
    decided = session.events("permission")[-1]
    (end,) = session.events("done")
    assert decided.content["decision"] == "cancelled"
    assert decided.sequence < end.sequence, "it belongs to the turn"
    session.error("approve", code=4)


def test_approve_says_what_it_allowed_and_by_which_option(shared_with: Share) -> None:
    session = shared_with()
    session.send("/ask path=e.txt Edit e.txt")
    request_id = pending(session).request_id
    printed = session.agh("approve", "--always").stdout
    option = "with the agent's option “allow always”"
    assert printed == f"{request_id}  allowed, always {option}: edit: {session.live.workspace}/e.txt\n"
