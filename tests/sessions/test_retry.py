"""`--retries N`: a prompt is sent again after a failure that may pass, while nothing of it was shown."""

from __future__ import annotations

import json
import time

import pytest

from tests.support.live import Live, Session
from tests.support.permissions import received
from tests.support.wait import wait_until

BUSY = "Internal error: 529 overloaded"


def quick(live: Live, delay: str = "0.05s") -> None:
    live.configure(f"[session]\nretry_delay = '{delay}'")


@pytest.fixture(scope="module")
def module_quick(module_live: Live) -> Session:
    quick(module_live)
    return module_live.new(args=("--permissions", "approve-all"))


@pytest.fixture
def retrying(shared_live: Live, module_quick: Session) -> Session:
    """Return a live session that sends again at once, for tests that look at turns of their own."""
    return module_quick


def test_it_is_one_turn_and_each_failure_is_in_the_log(live: Live) -> None:
    quick(live)
    session = live.new()
    turn = session.turn("/flaky 2\n/say made it", "--retries", "3")
    assert (turn["text"], turn["stop_reason"], turn["error"]) == ("made it", "end_turn", None)
    assert received(session) == ["/flaky 2\n/say made it"] * 3
    failures = [event.content for event in session.events("transcript_marker.created")]
    assert [(failure["kind"], failure["severity"], failure["attempt"]) for failure in failures] == [
        ("provider_failure", "warning", 1),
        ("provider_failure", "warning", 2),
    ]
    assert [failure["wait_seconds"] for failure in failures] == [0.05, 0.1], "twice as long each time"
    assert {failure["diagnostic"] for failure in failures} == {BUSY}
    assert {failure["turn"] for failure in failures} == {turn["turn_id"]}
    assert (session.count("user_message"), session.count("done"), session.count("error")) == (1, 1, 0)
    assert session.meta()["turns"] == 1
    session.check_log()


def test_when_they_are_used_up_the_failure_is_told(retrying: Session) -> None:
    markers, errors = len(retrying.markers()), retrying.count("error")
    result = retrying.prompt("/flaky 9", "--retries", "1", code=1)
    assert BUSY in result.stderr
    assert retrying.markers()[markers:] == ["provider_failure"]
    assert retrying.count("error") == errors + 1
    retrying.prompt("/flaky 9", code=1)
    assert retrying.markers()[markers:] == ["provider_failure"], "without the option nothing is sent again"


def test_what_was_shown_or_will_not_pass_is_not_sent_again(retrying: Session) -> None:
    markers, turns, errors = len(retrying.markers()), retrying.count("user_message"), retrying.count("error")
    for prompt in (
        f"/say first words\n/error -32603 {BUSY}",
        f"/think a while\n/error -32603 {BUSY}",
        f"/tool Look\n/error -32603 {BUSY}",
        f"/plan a;b\n/error -32603 {BUSY}",
        f"/write made.txt x\n/error -32603 {BUSY}",
        "/error -32603 401 invalid api key",
        "/error -32602 overloaded",
    ):
        retrying.prompt(prompt, "--retries", "3", code=9 if "api key" in prompt else 1)
    assert retrying.markers()[markers:] == []
    assert (retrying.count("user_message"), retrying.count("error")) == (turns + 7, errors + 7)


def test_a_cancel_ends_the_wait_at_once(live: Live) -> None:
    quick(live, "30s")
    session = live.new()
    viewer = session.start_prompt("/flaky 1\n/say never", "--retries", "2", "-o", "json")
    wait_until(lambda: "provider_failure" in session.markers())
    began = time.monotonic()
    session.agh("cancel")
    out, _ = viewer.communicate(timeout=20)
    assert time.monotonic() - began < 10
    assert json.loads(out)["turn"]["stop_reason"] == "cancelled"
    assert session.say("/say goes on") == "goes on"
    assert "never" not in session.text()


def test_the_sessions_end_ends_the_wait_at_once(live: Live) -> None:
    quick(live, "30s")
    session = live.new()
    session.call("prompt", prompt=[{"type": "text", "text": "/flaky 1\n/say never"}], retries=2)
    wait_until(lambda: "provider_failure" in session.markers())
    session.stop()
    assert session.meta()["stop_reason"] == "user_canceled"
    session.check_log()


def test_a_queued_prompt_keeps_its_own(retrying: Session) -> None:
    retrying.send("/sleep 0.3")
    assert retrying.say("/flaky 1\n/say made it", "--retries", "1") == "made it"


def test_run_takes_it_too(live: Live) -> None:
    quick(live)
    result = live.agh("run", "--agent", "echo", "/flaky 1\n/say made it", "--retries", "1", "-o", "text")
    assert result.stdout == "made it\n"
    live.agh("run", "--agent", "echo", "hello", "--retries", "-1", code=2)


def test_a_keeper_that_dies_in_the_wait_leaves_an_interrupted_turn(live: Live) -> None:
    quick(live, "30s")
    session = live.new()
    turn_id = session.call("prompt", prompt=[{"type": "text", "text": "/flaky 1"}], retries=2)["turn_id"]
    wait_until(lambda: "provider_failure" in session.markers())
    session.kill_keeper()
    assert session.say("/say goes on") == "goes on"
    (end,) = session.events("done", "error", turn=turn_id)
    assert end.content["stop_reason"] == "interrupted"
    assert [status for status, _ in session.inputs()] == ["interrupted", "sent"], "it is never sent by itself"
    session.check_log()


def test_a_prompt_that_waits_when_its_keeper_dies_keeps_its_retries(live: Live) -> None:
    quick(live)
    session = live.new()
    session.call("prompt", prompt=[{"type": "text", "text": "/sleep 60"}])
    flaky = [{"type": "text", "text": "/flaky 1\n/say made it"}]
    turn_id = session.call("prompt", prompt=flaky, retries=1)["turn_id"]
    session.kill_keeper()
    session.revive()
    wait_until(lambda: session.has_ended(turn_id))
    assert session.text(turn_id) == "made it"
