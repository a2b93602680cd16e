"""Keepers and agents that do not answer: each command says so in time, and `stop --kill` ends them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agh.errors import KeeperNotResponding
from agh.home import Session as HomeSession
from agh.keeper import client
from tests.support.live import Live
from tests.support.processes import carrying, is_alive, parent_of
from tests.support.wait import wait_until


@contextmanager
def frozen(*pids: int) -> Iterator[None]:
    """Processes that are stopped inside the block; what lives then continues."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            if is_alive(pid):
                os.kill(pid, signal.SIGCONT)


def test_stop_kill_ends_a_keeper_that_does_not_answer(live: Live) -> None:
    session = live.new()
    turn = session.send("/spawn-setsid 300\n/say begun\n/sleep 60")
    session.wait_for_text("begun")
    keeper, cookie = session.keeper, session.cookie
    with frozen(keeper):
        view = json.loads(session.agh("stop", "--kill", "-o", "json").stdout)["session"]
        assert not is_alive(keeper)
    assert (view["state"], view["stop_reason"]) == ("stopped", "user_canceled")
    assert "did not answer" in view["stop_detail"]
    assert carrying(cookie) == []
    (end,) = session.events("done", "error", turn=turn)
    assert end.content["stop_reason"] == "interrupted"
    assert session.events()[-1].type == "session_stopped"
    session.check_log()
    assert session.say("what did I say?").startswith("SEEN 2")


def test_stop_kill_ends_a_frozen_leash_and_its_agent_too(live: Live) -> None:
    session = live.new()
    pids, cookie = [session.keeper, session.leash, session.agent], session.cookie
    with frozen(*pids):
        session.agh("stop", "--kill")
    assert carrying(cookie) == []
    assert not session.is_live()


def test_stop_kill_lets_a_keeper_that_answers_end_in_order(live: Live) -> None:
    session = live.new()
    session.agh("stop", "--kill")
    assert [event.content["stop_reason"] for event in session.events("session_stopped")] == ["completed"]
    assert session.meta()["stop_detail"] is None
    session.agh("stop", "--kill")
    assert session.count("session_stopped") == 1


def test_only_the_holder_of_the_lock_is_killed(live: Live) -> None:
    """The pid in meta.json may be that of anybody by now."""
    session, other = live.new(), live.new()
    keeper, bystander = session.keeper, other.keeper
    meta = session.meta()
    meta["keeper"]["pid"] = bystander
    with frozen(keeper):
        (session.directory / "meta.json").write_text(json.dumps(meta))
        with open(session.directory / "lock"):  # an open lock file is not a lock
            session.agh("stop", "--kill")
    assert is_alive(bystander)
    assert not is_alive(keeper)
    assert other.tell("hello") == "echo: hello"


def test_stop_without_kill_names_the_command_that_does(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    session = live.new()
    with frozen(session.keeper):
        from agh.sessions import stop

        monkeypatch.setattr(stop, "LIMIT", 0.5)
        with pytest.raises(KeeperNotResponding) as caught:
            stop.stop_session(HomeSession.at(session.directory))
    assert caught.value.exit == 3
    assert caught.value.hint == f"agh session stop {session.id} --kill"


def test_a_request_whose_sender_has_given_up_is_dropped(live: Live) -> None:
    session = live.new()
    session.tell("hello")
    with frozen(session.keeper):
        for verb, fields in (("prompt", {"prompt": [{"type": "text", "text": "late"}]}), ("stop", {})):
            with pytest.raises(KeeperNotResponding):
                client.call(HomeSession.at(session.directory), verb, limit=0.3, **fields)
    assert session.tell("again") == "echo: again"
    assert [text for _, text in session.inputs()] == ["hello", "again"]
    assert session.is_live()


def test_list_status_and_doctor_say_that_it_does_not_respond(live: Live) -> None:
    session, other = live.new(), live.new()
    with frozen(session.keeper):
        rows = json.loads(live.agh("session", "list", "-o", "json").stdout)["sessions"]
        assert {row["id"]: row["badge"] for row in rows} == {session.id: "not-responding", other.id: "idle"}
        assert "not-responding" in live.agh("session", "list").stdout
        rows = json.loads(live.agh("session", "list", "--badge", "not-responding", "-o", "json").stdout)
        assert [row["id"] for row in rows["sessions"]] == [session.id]
        assert session.status()["badge"] == "not-responding"
        assert f"agh session stop {session.id} --kill" in session.agh("status").stdout
        doctor = live.agh("doctor", code=8)
        assert f"{session.id} does not respond" in doctor.stdout
    assert session.status()["badge"] == "idle"


@pytest.mark.parametrize("who", ["keeper", "agent", "leash", "all"])
def test_the_timeout_of_a_prompt_holds(live: Live, who: str) -> None:
    session = live.new()
    pids = {"keeper": session.keeper, "agent": session.agent, "leash": session.leash}
    with frozen(*(pids.values() if who == "all" else [pids[who]])):
        started = time.monotonic()
        done = session.prompt("hello", "--timeout", "1s", "-o", "json", code=None, timeout=50)
        took = time.monotonic() - started
    if who == "leash":  # it only watches
        assert done.returncode == 0
    else:
        assert done.returncode == 3, done.stderr
        assert took < 10
    if who in ("keeper", "all"):
        assert json.loads(done.stderr.splitlines()[-1])["error"]["hint"].endswith("--kill")


def test_the_timeout_holds_in_the_middle_of_a_turn(live: Live) -> None:
    session = live.new()
    with session.start_prompt("/say begun\n/sleep 30", "--timeout", "2s", "-o", "text") as watcher:
        session.wait_for_text("begun")
        with frozen(session.keeper):
            started = time.monotonic()
            _, err = watcher.communicate(timeout=40)
            assert time.monotonic() - started < 12
            assert watcher.returncode == 3
            assert b"--kill" in err
    # The cancel was still valid when the keeper continued.
    wait_until(lambda: session.events("done", "error"))
    assert session.events("done", "error")[0].content["stop_reason"] == "cancelled"


def test_the_timeout_holds_when_nobody_reads_the_output(live: Live) -> None:
    session = live.new()
    reading, writing = os.pipe()
    try:
        with session.start_prompt(
            "/stream 400 0 2000\n/sleep 30", "--timeout", "1s", "-o", "jsonl", stdout=writing
        ) as watcher:
            assert watcher.wait(30) == 3
    finally:
        os.close(reading)
        os.close(writing)


def test_a_start_has_a_limit(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """A keeper that freezes while it starts is ended by the command that started it."""
    from agh.sessions import start

    session = live.new()
    session.stop()
    monkeypatch.setattr(start, "START_LIMIT", 0.5)
    pids: list[int] = []
    send = start.spawn.send_request

    def send_and_freeze(keeper: start.spawn.KeeperProcess, *args: object) -> start.spawn.KeeperProcess:
        os.kill(keeper.pid, signal.SIGSTOP)
        pids.append(keeper.pid)
        return send(keeper, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(start.spawn, "send_request", send_and_freeze)
    with pytest.raises(KeeperNotResponding):
        start.ensure_live(HomeSession.at(session.directory))
    assert os.waitpid(pids[0], 0)[1] == signal.SIGKILL
    assert not session.is_live()
    monkeypatch.undo()
    assert session.say("what did I say?").startswith("SEEN 1")


def terminal_of(live: Live) -> tuple[int, int]:
    """Return the pid of the command that runs in a terminal, and that of its leash."""
    (command,) = wait_until(lambda: [each for each in live.processes() if each.argv == ["sleep", "300"]])
    return command.pid, parent_of(command.pid)


def test_a_session_ends_when_nothing_runs_in_its_terminals_any_more(live: Live) -> None:
    session = live.new(args=("--permissions", "approve-all"))
    session.send("/run exec sleep 300")
    command, leash = terminal_of(live)
    with frozen(leash):
        stop = live.start("session", "stop", session.id)
        with pytest.raises(subprocess.TimeoutExpired):
            stop.wait(1)
        assert session.is_live()
        assert is_alive(command)
    assert stop.wait(30) == 0
    assert not is_alive(command)


@pytest.mark.slow
def test_a_terminal_whose_leash_is_frozen_does_not_outlive_its_session(live: Live) -> None:
    session = live.new(args=("--permissions", "approve-all"))
    session.send("/run exec sleep 300")
    (command, leash), cookie = terminal_of(live), session.cookie
    with frozen(leash):
        session.agh("stop", timeout=40)
        assert not is_alive(command)
    assert carrying(cookie) == []
