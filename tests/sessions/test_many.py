"""`stop --all` and `resume --all`: every session that is meant, no other, whatever fails for one of them."""

from __future__ import annotations

import json
import os
import signal

from tests.support.live import Live
from tests.support.wait import wait_until


def lines(text: str) -> set[str]:
    return set(text.splitlines())


def test_all_live_sessions_are_stopped_and_no_other_is_touched(live: Live) -> None:
    running = [live.new() for _ in range(3)]
    stopped = live.new()
    stopped.stop()
    before = stopped.meta()
    result = live.agh("session", "stop", "--all")
    assert lines(result.stdout) == {f"{session.id}  stopped" for session in running}
    assert not any(session.is_live() for session in running)
    assert stopped.meta() == before
    again = live.agh("stop", "--all")
    assert (again.stdout, again.stderr) == ("", "no session is live\n")
    assert json.loads(live.agh("stop", "--all", "-o", "json").stdout) == {"sessions": []}


def test_a_keeper_that_does_not_respond_is_killed_if_you_say_so(live: Live) -> None:
    stuck, other = live.new(), live.new()
    os.kill(stuck.keeper, signal.SIGSTOP)
    result = live.agh("session", "stop", "--all", "--kill", "-o", "jsonl")
    records = {record["id"]: record["state"] for record in map(json.loads, result.stdout.splitlines())}
    assert records == {stuck.id: "stopped", other.id: "stopped"}


def test_what_a_shutdown_and_a_kill_ended_is_resumed(live: Live) -> None:
    finished, shut_down, killed = (live.new() for _ in range(3))
    for session in (shut_down, killed):
        session.tell("remember me")
    finished.stop()
    keeper = shut_down.keeper
    os.kill(keeper, signal.SIGTERM)
    killed.kill_keeper()
    wait_until(lambda: not shut_down.is_live() and not killed.is_live())
    result = live.agh("session", "resume", "--all")
    assert lines(result.stdout) == {f"{session.id}  idle" for session in (shut_down, killed)}
    assert not finished.is_live()
    assert shut_down.tell("what did I say?").startswith("SEEN 2")
    assert shut_down.meta()["attach"] is None
    again = live.agh("session", "resume", "--all")
    assert (again.stdout, again.stderr) == ("", "no session to resume\n")
    live.agh("session", "resume", "--all", "--state", "stopped")
    assert finished.is_live()


def test_one_that_cannot_be_resumed_is_named(live: Live) -> None:
    sound, broken = live.new(), live.new()
    for session in (sound, broken):
        session.kill_keeper()
    (broken.directory / "events.db").write_bytes(b"nothing")
    result = live.agh("session", "resume", "--all", code=8)
    assert result.stdout == f"{sound.id}  idle\n"
    assert sound.is_live()
    assert result.stderr.startswith(f"{broken.id}  ")


def test_bad_words_are_refused(live: Live) -> None:
    for args in (
        ["resume", "x", "--all"],
        ["resume", "--all", "--fresh"],
        ["resume", "--all", "--max-turns", "3"],
    ):
        assert "--all takes only" in live.agh("session", *args, code=2).stderr
    assert "agh session resume --all" in live.agh("resume", "x", "--state", "stopped", code=2).stderr
    assert "name a session, or use --all" in live.agh("stop", "x", "--all", code=2).stderr
    assert "stop needs a session" in live.agh("stop", code=2).stderr
