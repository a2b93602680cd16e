"""Sending a prompt again: under its key, and after an interruption."""

from __future__ import annotations

import json
import signal

from tests.support.live import Live
from tests.support.processes import kill
from tests.support.wait import wait_until


def test_a_key_with_another_text_is_a_conflict(live: Live) -> None:
    session = live.new()
    session.turn("/say once", "--idempotency-key", "k1")
    error = session.error("prompt", "/say twice", "--idempotency-key", "k1", code=6)
    assert error["code"] == "key_conflict"
    assert [text for _, text in session.inputs()] == ["/say once"]
    assert session.turn("/say once", "--idempotency-key", "k1")["turn_id"]
    assert len(session.inputs()) == 1


def test_the_hint_after_the_keepers_death_sends_the_prompt_again(live: Live) -> None:
    session = live.new()
    with session.start_prompt("/say begun\n/sleep 2\n/say ended", "-o", "json") as watcher:
        session.wait_for_text("begun")
        session.kill_keeper()
        _, err = watcher.communicate(timeout=30)
    assert watcher.returncode == 7
    error = json.loads(err.splitlines()[-1])["error"]
    assert error["hint"] == f"agh session queue retry {session.id} 1"
    assert "ended" in live.agh(*error["hint"].split()[1:], "-o", "text").stdout
    assert [status for status, _ in session.inputs()] == ["interrupted", "sent"]


def test_the_hint_after_an_interrupted_turn_sends_the_prompt_again(live: Live) -> None:
    session = live.new()
    with session.start_prompt("/say begun\n/sleep 300", "-o", "json") as watcher:
        session.wait_for_text("begun")
        watcher.send_signal(signal.SIGSTOP)
        session.kill_keeper()
        session.revive()
        wait_until(lambda: session.events("error"))
        watcher.send_signal(signal.SIGCONT)
        _, err = watcher.communicate(timeout=30)
    error = json.loads(err.splitlines()[-1])["error"]
    assert (error["code"], error["hint"]) == ("turn_interrupted", f"agh session queue retry {session.id} 1")


def test_a_queued_prompt_is_not_retried_but_resumed(live: Live) -> None:
    session = live.new()
    session.send("/say begun\n/sleep 300")
    session.wait_for_text("begun")
    with session.start_prompt("/say mine", "-o", "json") as watcher:
        wait_until(lambda: len(session.inputs()) == 2)
        live.reads_the_log(watcher, session)
        kill(session.keeper)
        _, err = watcher.communicate(timeout=30)
    assert json.loads(err.splitlines()[-1])["error"]["hint"] == f"agh session resume {session.id}"
