"""A turn that ended because a permission was refused exits 5 and names what was refused."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator

import pytest

from tests.sessions.test_compare import compare
from tests.support.live import Live, Session
from tests.support.permissions import raw_request
from tests.support.wait import wait_until

# Requests that the agent makes without a word about the answer.
SILENT = raw_request({"kind": "execute", "rawInput": {"command": "rm -rf x"}, "toolCallId": "c1"})
ASKING = "/ask kind=execute command=make"


@pytest.fixture(scope="module")
def module_denying(module_live: Live) -> Session:
    return module_live.new(args=("--permissions", "deny-all"))


@pytest.fixture
def denying(shared_live: Live, module_denying: Session) -> Iterator[Session]:
    """Yield a live session that refuses everything, for tests that look at their own turns."""
    yield module_denying
    module_denying.wait_idle()


def wait_for_refusal(session: Session, before: int) -> None:
    """Wait until the agent has said that it was refused; `before` is how often it had spoken."""
    wait_until(
        lambda: any(
            "reject_once" in said.content["text"] for said in session.events("agent_message")[before:]
        )
    )


@pytest.mark.parametrize("output", ["human", "text", "jsonl"])
def test_a_mode_that_refuses(live: Live, output: str) -> None:
    refused = live.agh("run", "--agent", "echo", "--permissions", "deny-all", SILENT, "-o", output, code=5)
    message = "execute 'rm -rf x' was refused (mode deny-all); the turn ended without it"
    (session,) = live.sessions()
    hint = f"agh session permissions {session.id} --all"
    if output == "jsonl":
        assert json.loads(refused.stderr)["error"] == {
            "code": "permission_refused",
            "message": message,
            "hint": hint,
            "details": {"action": "execute", "resource": "rm -rf x", "decided_by": "mode"},
        }
    else:
        assert refused.stderr == f"agh: {message}\nhint: {hint}\n"


def test_the_turn_is_printed_all_the_same(denying: Session) -> None:
    refused = denying.prompt(f"/say before\n{SILENT}", "-o", "json", code=5)
    turn = json.loads(refused.stdout)["turn"]
    assert (turn["text"], turn["stop_reason"], turn["error"]) == ("before", "end_turn", None)
    assert json.loads(refused.stderr)["error"]["code"] == "permission_refused"
    *_, row = json.loads(denying.agh("permissions", "--all", "-o", "json").stdout)["permissions"]
    assert (row["resource"], row["decision"]) == ("rm -rf x", "denied"), "where the hint leads"


@pytest.mark.parametrize(
    ("settings", "options", "reason"),
    [
        ("[[permissions.rules]]\nkind = 'execute'\ndecision = 'deny'", (), "one of your rules"),
        ("[permissions]\ntimeout = '0.2s'", (), "no answer in time"),
        ("", ("--no-ask",), "--no-ask"),
    ],
)
def test_an_agent_that_stops_for_a_refusal(
    live: Live, settings: str, options: tuple[str, ...], reason: str
) -> None:
    live.configure(settings)
    session = live.new()
    for ending in ("/refuse", "/stop cancelled"):
        refused = session.prompt(f"{ASKING}\n{ending}", *options, code=5)
        assert refused.stderr.startswith(f"agh: execute 'make' was refused ({reason}); the turn ended"), (
            ending
        )


def test_a_person_refuses_from_another_terminal(live: Live) -> None:
    session = live.new()
    with session.start_prompt(f"{ASKING}\n/refuse") as watcher:
        wait_until(lambda: session.fetch("SELECT 1 FROM permissions WHERE status = 'pending'"))
        session.agh("deny")
        _, error = watcher.communicate(timeout=20)
    assert watcher.returncode == 5
    assert b"execute 'make' was refused (by the user)" in error


def test_an_agent_that_answers_after_a_refusal_exits_0(denying: Session) -> None:
    assert denying.say(ASKING) == "permission: reject_once"
    denying.prompt(f"{SILENT}\n/tool look kind=read")


def test_queue_retry_exits_5_too(denying: Session) -> None:
    denying.prompt(f"/flaky 1\n{SILENT}", code=1)
    ((number,),) = denying.fetch("SELECT max(id) FROM inputs")
    refused = denying.live.agh("session", "queue", "retry", denying.id, number, code=5)
    assert "execute 'rm -rf x' was refused" in refused.stderr


def test_a_refusal_is_the_row_of_a_comparison(live: Live) -> None:
    (row,) = compare(live, "echo", f"{ASKING}\n/refuse", code=5)
    assert (row["exit"], row["error"]["code"]) == (5, "permission_refused")
    assert row["error"]["details"]["resource"] == "make"


def test_ctrl_c_and_a_timeout_keep_their_exits(denying: Session) -> None:
    before = denying.count("agent_message")
    with denying.start_prompt(f"{ASKING}\n/sleep 30") as process:
        wait_for_refusal(denying, before)
        denying.live.has_printed(process)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    assert process.returncode == 130
    denying.prompt(f"{ASKING}\n/sleep 30", "--timeout", "0.3s", code=3)


def test_a_turn_that_someone_else_cancelled_was_not_refused(denying: Session) -> None:
    before = denying.count("agent_message")
    with denying.start_prompt(f"{ASKING}\n/sleep 30") as process:
        wait_for_refusal(denying, before)
        denying.agh("cancel")
        _, error = process.communicate(timeout=20)
    assert process.returncode == 1
    assert b"the turn ended early: cancelled" in error


def test_an_agent_that_died_after_a_refusal_exits_7(live: Live) -> None:
    session = live.new(args=("--permissions", "deny-all"))
    assert "interrupted" in session.prompt(f"{SILENT}\n/sleep 0.1\n/crash", code=7).stderr
