"""Queued prompts: in order, within bounds, changed from outside, and never lost or sent twice."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.support.live import Live, Session
from tests.support.permissions import pending, received
from tests.support.processes import kill
from tests.support.wait import PATIENCE, wait_until


def queue(session: Session, verb: str, *args: object, **options: Any) -> subprocess.CompletedProcess[str]:
    return session.live.agh("session", "queue", verb, session.id, *args, **options)


def listed(session: Session, *args: object) -> list[tuple[int, str, str]]:
    rows = json.loads(queue(session, "list", *args, "-o", "json").stdout)["inputs"]
    return [(row["id"], row["status"], row["prompt"][0]["text"]) for row in rows]


def generations(session: Session) -> list[int]:
    return [row[0] for row in session.fetch("SELECT generation FROM inputs ORDER BY id")]


def busy(live: Live, text: str = "/ask path=a.txt") -> Session:
    """Return a live session whose turn waits until its permission is decided."""
    return occupy(live.new(), text)


def occupy(session: Session, text: str = "/ask path=a.txt") -> Session:
    session.send(text)
    pending(session)
    return session


def go_on(session: Session) -> None:
    session.decide("allow")


def ended(process: subprocess.Popen[bytes], limit: float = 5) -> int:
    """Wait for a viewer to end; return its exit number."""
    wait_until(lambda: process.poll() is not None, limit, "the command ends")
    return process.returncode


def test_first_in_first_out(live: Live) -> None:
    session = busy(live)
    for number in range(8):
        session.send(f"prompt {number}")
    go_on(session)
    session.wait_idle()
    assert received(session) == ["/ask path=a.txt", *(f"prompt {number}" for number in range(8))]
    assert {status for status, _ in session.inputs()} == {"sent"}
    assert session.markers() == ["prompt_queued"] * 8 + ["prompt_accepted"] * 8
    session.check_log()


def test_the_cap_and_the_size(live: Live) -> None:
    live.configure("[session]\nqueue_cap = 2\ninput_bytes = 20")
    session = busy(live)
    session.send("one")
    session.send("€" * 6)
    error = session.error("prompt", "three", code=6)
    assert error["code"] == "queue_full"
    assert f"agh session wait {session.id}" in error["hint"]
    error = session.error("prompt", "€" * 7, code=2)
    assert error["code"] == "input_too_large"
    assert "21" in error["message"]
    assert len(session.inputs()) == 3, "what was refused is not stored"
    go_on(session)
    session.wait_idle()
    assert session.error("prompt", "x" * 21, code=2)["code"] == "input_too_large", "nor when nothing waits"
    assert session.say("x" * 20) == "echo: " + "x" * 20


def test_an_interrupt_drops_what_waits_and_begins_a_new_generation(live: Live) -> None:
    session = live.new()
    session.send("/say begun\n/sleep 30\n/say never")
    session.wait_for_text("begun")
    session.send("stale one")
    session.send("stale two")
    result = session.prompt("/say instead", "--interrupt", "-o", "text")
    assert result.stdout == "instead\n"
    assert session.inputs() == [
        ("sent", "/say begun\n/sleep 30\n/say never"),
        ("cancelled", "stale one"),
        ("cancelled", "stale two"),
        ("sent", "/say instead"),
    ]
    assert generations(session) == [0, 0, 0, 1]
    assert [event.content["stop_reason"] for event in session.events("done")] == ["cancelled", "end_turn"]
    assert "never" not in session.text()
    assert received(session) == ["/say begun\n/sleep 30\n/say never", "/say instead"]
    markers = session.markers()
    assert markers[:2] == ["prompt_queued"] * 2
    assert sorted(markers[2:]) == [
        "prompt_accepted",
        "prompt_cancel",
        "prompt_dropped",
        "prompt_dropped",
        "prompt_interrupted",
    ]
    details = [row[0] for row in session.fetch("SELECT detail FROM inputs WHERE status = 'cancelled'")]
    assert details == ["dropped by an interrupt"] * 2
    session.send("later")
    session.wait_idle()
    assert generations(session)[-1] == 1
    recap = json.loads(session.agh("recap", "-o", "json").stdout)["recap"]
    assert recap["snapshot"]["queue_generation"] == 1


def test_to_interrupt_or_steer_nothing_is_a_prompt(live: Live) -> None:
    session = live.new()
    for mode in ("--interrupt", "--steer"):
        assert session.prompt("/say hello", mode, "-o", "text").stdout == "hello\n"
    assert generations(session) == [0, 0]
    assert session.markers() == []


def test_an_interrupt_is_heard_though_the_queue_is_full(live: Live) -> None:
    live.configure("[session]\nqueue_cap = 1")
    session = live.new()
    session.send("/sleep 30")
    session.send("stale")
    assert session.prompt("/say instead", "--interrupt", "-o", "text").stdout == "instead\n"


def test_an_interrupt_ends_an_agent_that_does_not_listen(live: Live) -> None:
    """The session stops; the prompt that interrupted is kept, and sent when the session is live again."""
    live.configure("[session]\ncancel_grace = '0.3s'")
    session = live.new()
    session.send("/ignore-cancel\n/say begun\n/sleep 30")
    session.wait_for_text("begun")
    session.call("prompt", prompt=[{"type": "text", "text": "/say instead"}], mode="interrupt")
    wait_until(lambda: not session.is_live(), what="the session is stopped")
    assert session.meta()["stop_reason"] == "timeout"
    assert session.inputs()[1] == ("queued", "/say instead")
    session.agh("resume")
    session.wait_for_text("instead")


def test_steering_comes_in_where_a_tool_has_ended(live: Live) -> None:
    session = busy(live, "/say begun\n/ask path=a.txt\n/sleep 30\n/say never")
    session.send("queued before")
    steering = session.start_prompt("/say corrected", "--steer", "-o", "text")
    wait_until(lambda: len(session.inputs()) == 3)
    assert "prompt_cancel" not in session.markers(), "not before the tool has ended"
    go_on(session)  # the tool ends
    out, _ = steering.communicate(timeout=PATIENCE)
    assert (steering.returncode, out) == (0, b"corrected\n")
    session.wait_idle()
    assert session.markers() == [
        "prompt_queued",
        "prompt_steered",
        "prompt_cancel",
        "prompt_accepted",
        "prompt_accepted",
    ]
    boundary = session.events("tool_result")[0].sequence
    cancel = next(event for event in session.events() if event.content.get("kind") == "prompt_cancel")
    assert cancel.sequence > boundary
    assert received(session)[1:] == ["/say corrected", "queued before"]
    assert "never" not in session.text()
    assert [status for status, _ in session.inputs()] == ["sent"] * 3


def test_steering_without_a_tool_comes_after_the_turn(shared: Session) -> None:
    markers, turn_id = len(shared.markers()), shared.send("/say begun\n/stream 10 0.05\n/say whole")
    wait_until(lambda: "begun" in shared.text(turn_id))
    assert shared.prompt("/say after", "--steer", "-o", "text").stdout == "after\n"
    assert "prompt_cancel" not in shared.markers()[markers:]
    ends = [event.content["stop_reason"] for event in shared.events("done")[-2:]]
    assert ends == ["end_turn", "end_turn"]
    assert "whole" in shared.text(turn_id)


def test_the_queue_of_a_live_session(live: Live) -> None:
    session = busy(live)
    for word in ("b", "c", "d", "e"):
        session.send(f"/say {word}")
    first = (1, "dispatching", "/ask path=a.txt")
    assert listed(session) == [first, *((n, "queued", f"/say {w}") for n, w in enumerate("bcde", 2))]
    assert queue(session, "list").stdout.splitlines()[1].split() == [
        "1",
        "dispatching",
        "queue",
        "/ask",
        "path=a.txt",
    ]
    assert json.loads(queue(session, "cancel", 3, "-o", "json").stdout) == {"cancelled": [3]}
    for number in (3, 1, 99):
        error = json.loads(queue(session, "cancel", number, "-o", "json", code=4).stderr)["error"]
        assert error["code"] == "input_unknown"
    go_on(session)
    session.wait_idle()
    assert [status for status, _ in session.inputs()] == ["sent", "sent", "cancelled", "sent", "sent"]
    assert session.text().endswith("bde")
    assert listed(session) == []
    assert len(listed(session, "--all")) == 5
    session.send("/ask path=a.txt")
    session.send("/say f")
    session.send("/say g")
    assert json.loads(queue(session, "clear", "-o", "json").stdout) == {"cancelled": [7, 8]}
    assert json.loads(queue(session, "clear", "-o", "json").stdout) == {"cancelled": []}
    go_on(session)
    session.wait_idle()
    assert queue(session, "retry", 7, "-o", "text").stdout == "f\n"
    assert json.loads(queue(session, "retry", 1, "-o", "json", code=4).stderr)["error"]["code"] == (
        "input_unknown"
    )
    assert session.markers().count("prompt_dropped") == 3
    session.check_log()


def test_the_queue_of_a_stopped_session(live: Live) -> None:
    session = busy(live, "/say begun\n/ask path=a.txt")
    for word in ("b", "c", "d"):
        session.send(f"/say {word}")
    session.kill_keeper()
    assert json.loads(queue(session, "cancel", 3, "-o", "json").stdout) == {"cancelled": [3]}
    assert json.loads(queue(session, "cancel", 3, "-o", "json", code=4).stderr)["error"]["code"] == (
        "input_unknown"
    )
    session.agh("repair")
    assert listed(session) == [
        (1, "interrupted", "/say begun\n/ask path=a.txt"),
        (2, "queued", "/say b"),
        (4, "queued", "/say d"),
    ]
    assert json.loads(queue(session, "clear", "-o", "json").stdout) == {"cancelled": [2, 4]}
    assert not session.is_live(), "to change the queue starts nothing"
    assert queue(session, "retry", 2, "-o", "text").stdout == "b\n"
    retried = live.start("session", "queue", "retry", session.id, 1, "-o", "text")
    pending(session)
    go_on(session)
    out, _ = retried.communicate(timeout=PATIENCE)
    assert (retried.returncode, out) == (0, b"begun\npermission: allow_once\n")
    session.check_log()


def test_an_interrupted_prompt_is_sent_again_only_on_demand(live: Live) -> None:
    session = busy(live, "/say begun\n/ask path=a.txt")
    session.send("/say waited")
    session.kill_keeper()
    assert session.say("/say newer") == "newer"
    assert session.inputs() == [
        ("interrupted", "/say begun\n/ask path=a.txt"),
        ("sent", "/say waited"),
        ("sent", "/say newer"),
    ]
    assert received(session) == ["/say begun\n/ask path=a.txt", "/say waited", "/say newer"]
    assert session.markers().count("prompt_interrupted") == 1


def test_an_idempotency_key_makes_a_retry_safe(live: Live) -> None:
    session = busy(live, "/ask path=a.txt")
    keyed = ("--idempotency-key", "nightly-7", "--detach", "-o", "json")
    receipts = [json.loads(session.prompt("/say once", *keyed).stdout)["input"] for _ in range(2)]
    assert [receipt["repeated"] for receipt in receipts] == [False, True]
    assert receipts[0]["turn_id"] == receipts[1]["turn_id"]
    second = session.start_prompt("/say once", "--idempotency-key", "nightly-7", "-o", "text")
    session.kill_keeper()
    assert ended(second, PATIENCE) in (0, 7)
    session.agh("resume")
    session.wait_idle()
    result = session.prompt("/say once", "--idempotency-key", "nightly-7", "-o", "text")
    assert result.stdout == "once\n", "the turn that was is shown again"
    session.stop()
    assert session.prompt("/say once", "--idempotency-key", "nightly-7", "-o", "text").stdout == "once\n"
    assert received(session) == ["/ask path=a.txt", "/say once"]
    assert [status for status, _ in session.inputs()] == ["interrupted", "sent"]


def dropped_by_clear(session: Session) -> None:
    queue(session, "clear")


def dropped_by_cancel(session: Session) -> None:
    queue(session, "cancel", listed(session)[-1][0])


def dropped_by_an_interrupt(session: Session) -> None:
    session.call("prompt", prompt=[{"type": "text", "text": "/ask path=a.txt"}], mode="interrupt")


@pytest.mark.parametrize("drop", [dropped_by_clear, dropped_by_cancel, dropped_by_an_interrupt])
def test_who_waits_for_a_dropped_prompt_is_told(shared: Session, drop: Any) -> None:
    count, key = len(occupy(shared).inputs()), f"k-{drop.__name__}"
    waiting = shared.start_prompt("/say never", "--idempotency-key", key, "-o", "json")
    wait_until(lambda: len(shared.inputs()) == count + 1)
    drop(shared)
    wait_until(lambda: shared.inputs()[count] == ("cancelled", "/say never"))
    assert ended(waiting) not in (0, 70)
    assert b"error" in waiting.communicate(timeout=PATIENCE)[1]
    again = shared.start_prompt("/say never", "--idempotency-key", key, "-o", "json")
    assert ended(again) not in (0, 70), "and so is the one who asks for it again"
    go_on(shared)


def test_the_timeout_of_a_waiting_prompt_leaves_the_running_turn_alone(shared: Session) -> None:
    count, markers = len(occupy(shared).inputs()), len(shared.markers())
    waiting = shared.start_prompt("/say never", "--timeout", "0.3s", "-o", "json")
    wait_until(lambda: len(shared.inputs()) == count + 1)
    assert ended(waiting) == 3
    assert "prompt_cancel" not in shared.markers()[markers:]
    assert shared.inputs()[count] == ("cancelled", "/say never")
    go_on(shared)
    shared.wait_idle()
    assert shared.text(shared.events("done")[-1].turn_id) == "permission: allow_once"


def test_nothing_overtakes_while_a_hook_runs(live: Live) -> None:
    live.configure("[[hooks]]\nevent = 'turn_end'\ncommand = 'test -e go || sleep 0.7'")
    session = busy(live)
    session.send("second")
    go_on(session)
    wait_until(lambda: session.count("done"))
    session.send("third")
    session.wait_idle()
    wait_until(lambda: len(session.inputs()) == 3 and session.count("done") == 3)
    assert received(session) == ["/ask path=a.txt", "second", "third"]


def test_what_waits_outlives_the_agent(live: Live) -> None:
    session = live.new()
    session.send("/say begun\n/sleep 30")
    session.wait_for_text("begun")
    session.send("/say second")
    session.send("/say third")
    kill(session.agent)
    wait_until(lambda: not session.is_live())
    assert [status for status, _ in session.inputs()] == ["failed", "queued", "queued"]
    session.agh("resume")
    session.wait_idle()
    assert session.text() == "begunsecondthird"
