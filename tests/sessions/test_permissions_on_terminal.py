"""The question on the terminal of the one who follows: answered there, or elsewhere meanwhile."""

from __future__ import annotations

import json
import time

import pytest

from tests.support.live import Live, Share
from tests.support.permissions import outcomes, pending, requests
from tests.support.terminal import open_terminal
from tests.support.wait import wait_until

QUESTION = "allow it?"


@pytest.mark.parametrize(
    ("typed", "outcome", "remembered"),
    [
        ("YES", "allow_once", None),
        ("n", "reject_once", None),
        ("a", "allow_always", "allow"),
        ("d", "reject_always", "deny"),
    ],
)
def test_answered_where_it_was_asked(
    shared_with: Share, typed: str, outcome: str, remembered: str | None
) -> None:
    session = shared_with()
    earlier = len(session.meta().get("permission_rules") or [])
    ask = f"/ask path={outcome}.txt Edit {outcome}.txt"
    with open_terminal(session.live, "session", "prompt", session.id, ask) as terminal:
        terminal.shows(QUESTION)
        assert f"Edit {outcome}.txt" in terminal.printed
        terminal.type(f"{typed}\n")
        assert terminal.ends() == 0
    assert f"permission: {outcome}" in terminal.printed
    assert [request.decided_by for request in requests(session)] == ["terminal"]
    rules = [rule["decision"] for rule in session.meta().get("permission_rules") or []]
    assert rules[earlier:] == ([remembered] if remembered else [])


@pytest.mark.parametrize("term", ["dumb", "xterm"])
def test_no_command_above_the_question(shared_with: Share, term: str) -> None:
    session = shared_with()
    prompt = ("session", "prompt", session.id, "/ask path=a.txt Edit a.txt")
    with open_terminal(session.live, *prompt, TERM=term) as terminal:
        terminal.shows(QUESTION)
        terminal.type("y\n")
        assert terminal.ends() == 0
    assert "agh session approve" not in terminal.printed


def test_what_is_no_answer_is_asked_again(shared_with: Share) -> None:
    session = shared_with()
    with open_terminal(session.live, "session", "prompt", session.id, "/ask path=a.txt") as terminal:
        terminal.shows(QUESTION)
        terminal.type("\nmaybe\ny\n")
        assert terminal.ends() == 0
    assert terminal.printed.count(QUESTION) >= 2
    assert "permission: allow_once" in terminal.printed


def test_answered_elsewhere_meanwhile(shared_with: Share) -> None:
    session = shared_with()
    prompt = ("session", "prompt", session.id, "/ask path=a.txt\n/say went on")
    with open_terminal(session.live, *prompt, TERM="xterm") as terminal:
        terminal.shows(QUESTION)
        session.agh("approve", pending(session).request_id)
        assert terminal.ends() == 0
    assert "answered elsewhere" in terminal.printed
    assert terminal.printed.index("answered elsewhere") < terminal.printed.index("went on")
    assert outcomes(session) == [("allowed", "user")]


def test_the_terminal_is_closed_and_the_answer_comes_from_elsewhere(shared_with: Share) -> None:
    session = shared_with()
    with open_terminal(
        session.live, "session", "prompt", session.id, "/ask path=a.txt\n/say went on"
    ) as terminal:
        terminal.shows(QUESTION)
        terminal.process.kill()
        terminal.ends()
    session.agh("approve")
    session.wait_idle()
    assert "went on" in session.text()


def test_ctrl_c_at_the_question_cancels_the_turn(shared_with: Share) -> None:
    session = shared_with()
    with open_terminal(
        session.live, "session", "prompt", session.id, "/ask path=a.txt\n/sleep 30"
    ) as terminal:
        terminal.shows(QUESTION)
        terminal.type("\x03")
        terminal.process.send_signal(2)  # the terminal is nobody's controlling one
        assert terminal.ends() == 130
    assert outcomes(session) == [("cancelled", "cancel")]
    assert session.events("done")[0].content["stop_reason"] == "cancelled"


def test_what_the_mode_decides_is_no_question(shared_with: Share) -> None:
    session = shared_with()
    with open_terminal(
        session.live, "session", "prompt", session.id, "/ask kind=read path=a.txt"
    ) as terminal:
        assert terminal.ends() == 0
    assert "permission: allow_once" in terminal.printed
    assert QUESTION not in terminal.printed
    assert "answered elsewhere" not in terminal.printed
    assert "agh session approve" not in terminal.printed, "there is nothing left to answer"
    assert "[permission] allowed (by mode): read: " in terminal.printed
    assert "asked" not in terminal.printed


def test_what_the_mode_decides_is_shown_as_decided_on_a_capable_terminal(shared_with: Share) -> None:
    session = shared_with()
    prompt = ("session", "prompt", session.id, "/ask kind=read path=a.txt")
    with open_terminal(session.live, *prompt, TERM="xterm") as terminal:
        assert terminal.ends() == 0
    assert "agh session approve" not in terminal.printed
    assert "allowed (by mode): read:" in terminal.printed


@pytest.mark.parametrize("term", ["dumb", "xterm"])
def test_what_no_ask_refuses_is_shown_as_refused(shared_with: Share, term: str) -> None:
    session = shared_with()
    prompt = ("session", "prompt", session.id, "/ask path=a.txt\n/say went on", "--no-ask")
    with open_terminal(session.live, *prompt, TERM=term) as terminal:
        assert terminal.ends() == 0
    assert "agh session approve" not in terminal.printed
    assert "denied (by no-ask): edit:" in terminal.printed
    assert terminal.printed.index("denied (by no-ask)") < terminal.printed.index("went on")


def test_the_prompts_timeout_counts_while_the_question_stands(live: Live) -> None:
    live.configure("[permissions]\ntimeout = '60s'")
    session = live.new()
    started = time.monotonic()
    with open_terminal(
        live, "session", "prompt", session.id, "/ask path=a.txt", "--timeout", "0.5s"
    ) as terminal:
        terminal.shows(QUESTION)
        assert terminal.ends() == 3
    assert time.monotonic() - started < 40
    assert outcomes(session) == [("cancelled", "cancel")]


def test_one_who_attaches_is_asked_what_waits(shared_with: Share) -> None:
    session = shared_with()
    session.send("/ask path=a.txt Edit a.txt")
    pending(session)
    with open_terminal(session.live, "session", "attach", session.id, TERM="xterm") as terminal:
        terminal.shows(QUESTION, 10)
        terminal.type("y\n")
        terminal.shows("permission: allow_once")
    assert outcomes(session) == [("allowed", "terminal")]


def test_what_was_typed_before_the_question_approves_nothing(shared_with: Share) -> None:
    session = shared_with()
    script = "/say wait\n/sleep 1\n/ask path=a.txt"
    with open_terminal(session.live, "session", "prompt", session.id, script) as terminal:
        terminal.shows("wait")
        terminal.type("y\n")
        terminal.shows(QUESTION)
        terminal.type("you decide\n")
        wait_until(lambda: terminal.collect() or terminal.printed.count(QUESTION) == 2)
        terminal.type("n\n")
        terminal.ends()
        assert "reject_once" in session.text()


def test_the_lines_of_a_command_stay_apart(shared_with: Share) -> None:
    session = shared_with()
    command = {"command": "echo hi\nrm -rf x"}
    tool = {"toolCallId": "t", "kind": "execute", "title": "echo", "rawInput": command}
    ask = {"toolCall": tool, "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]}
    session.send(f"/request session/request_permission {json.dumps(ask)}")
    pending(session)
    assert "run: echo hi ⏎ rm -rf x" in session.agh("permissions").stdout
    session.decide("deny")
