"""`agh session wait`"""

from __future__ import annotations

import json
import time

from tests.support.live import Live, Session
from tests.support.wait import wait_until


def test_until_idle(shared: Session) -> None:
    turn_id = shared.send("/sleep 0.4\n/say done")
    result = shared.agh("wait", "--timeout", "10s", "-o", "json")
    view = json.loads(result.stdout)["session"]
    assert (view["phase"], view["badge"]) == ("idle", "idle")
    assert shared.text(turn_id) == "done"


def test_until_the_turn_ends_though_another_one_waits(live: Live) -> None:
    session = live.new()
    session.send("/ask path=a.txt")
    session.send("/sleep 30")
    with live.start("session", "wait", session.id, "--until", "turn", "--timeout", "20s") as waiting:
        live.reads_the_log(waiting, session)
        session.agh("approve")
        waiting.communicate(timeout=30)
    assert waiting.returncode == 0
    assert session.count("done") == 1
    wait_until(lambda: session.status()["phase"] == "running")


def test_until_stopped(live: Live) -> None:
    session = live.new()
    waiting = live.start("session", "wait", session.id, "--until", "stopped", "--timeout", "20s")
    session.send("/sleep 0.1\n/exit 4")
    out, _ = waiting.communicate(timeout=20)
    assert waiting.returncode == 0
    assert out == f"{session.id}  failed\n".encode()
    assert session.agh("wait", "--until", "stopped", "--timeout", "1s").returncode == 0


def test_until_permission(shared: Session) -> None:
    shared.send("/sleep 0.3\n/ask path=a.txt May I?")
    result = shared.agh("wait", "--until", "permission", "--timeout", "10s", "-o", "json")
    view = json.loads(result.stdout)["session"]
    assert (view["phase"], view["badge"]) == ("waiting_for_permission", "waiting-for-input")
    shared.decide("deny")


def test_a_timeout_is_3_and_on_time(shared: Session) -> None:
    shared.send("/sleep 30")
    for until in ("idle", "turn", "stopped", "permission"):
        started = time.monotonic()
        assert shared.error("wait", "--until", until, "--timeout", "0.3s", code=3)["code"] == "timed_out"
        assert 0.3 <= time.monotonic() - started < 20, "long before the turn ends"
    shared.call("cancel")


def test_what_can_no_longer_happen_is_not_waited_for(live: Live) -> None:
    session = live.new()
    session.send("/sleep 30")
    waiting = [
        live.start("session", "wait", session.id, "--until", until, "--timeout", "30s")
        for until in ("turn", "permission")
    ]
    for process in waiting:
        live.reads_the_log(process, session)
    session.kill_keeper()
    for process in waiting:
        process.communicate(timeout=10)
        assert process.returncode == 7
    assert session.agh("wait", "--until", "idle", "--timeout", "5s").returncode == 0


def test_usage(shared: Session) -> None:
    shared.live.agh("session", "wait", "nobody", code=4)
    shared.agh("wait", "--until", "later", code=2)
    shared.agh("wait", "--timeout", "later", code=2)
