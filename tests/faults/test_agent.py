"""Death of an agent or of its leash: recorded with its exit code or signal, in a bundle, and resumable."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.support.live import GONE_WITHIN, Live, Session
from tests.support.processes import carrying, kill
from tests.support.wait import wait_until

SECRET = "hunter2-Zq81vT0pWx55"


def bundle_of(session: Session) -> dict[str, Any]:
    """Return the crash bundle that the metadata names: private, whole, and free of the secret."""
    path = Path(session.meta()["failure"]["crash_bundle_path"])
    assert path.parent == session.live.home / "logs" / "crash-bundles"
    assert path.name.startswith(f"{session.id}-")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    text = path.read_text()
    assert SECRET not in text
    assert len(text) < 1 << 20
    document: dict[str, Any] = json.loads(text)
    assert set(document) == {
        "schema", "session", "agent", "failure", "process", "error", "stderr", "stdout", "last_events"
    }  # fmt: skip
    assert document["schema"] == "agh.session_crash_bundle.v1"
    assert document["session"]["id"] == session.id
    assert set(document["process"]) == {"pid", "argv", "cwd", "started_at", "exit_code", "signal"}
    return document


def check_crashed(session: Session, how: str) -> None:
    wait_until(lambda: not session.is_live())
    meta = session.meta()
    assert (meta["state"], meta["stop_reason"]) == ("stopped", "agent_crashed")
    assert meta["failure"]["kind"] == "process_exit"
    assert how in meta["failure"]["summary"]
    assert how in meta["stop_detail"]
    (stopped,) = session.events("session_stopped")
    assert stopped.content["stop_reason"] == "agent_crashed"
    assert how in stopped.content["failure"]["summary"]
    session.check_log()


@pytest.mark.parametrize(
    ("step", "how", "code", "number"),
    [("/exit 3", "code 3", 3, None), ("/crash", "signal 9", None, 9)],
)
def test_an_agent_that_ends_in_its_turn(
    live: Live, step: str, how: str, code: int | None, number: int | None
) -> None:
    session = live.new(env={"MY_API_KEY": SECRET})
    agent = session.agent
    turn = session.turn(f"/say begun {SECRET}\n/stderr my key is {SECRET}, alas\n{step}", code=7)
    assert turn["stop_reason"] == "interrupted"
    assert how in turn["error"]
    check_crashed(session, how)
    bundle = bundle_of(session)
    assert bundle["process"]["pid"] == agent
    assert (bundle["process"]["exit_code"], bundle["process"]["signal"]) == (code, number)
    assert bundle["process"]["cwd"] == str(live.workspace)
    assert bundle["failure"]["kind"] == "process_exit"
    assert "my key is" in bundle["stderr"]
    assert "alas" in bundle["stderr"]
    assert bundle["last_events"]
    assert session.say("what did I say?").startswith("SEEN 2 user texts")
    assert session.meta()["failure"] is None


def test_an_agent_killed_between_turns(live: Live) -> None:
    session = live.new()
    session.tell("hello")
    kill(session.agent)
    check_crashed(session, "signal 9")
    assert session.count("error") == 0
    assert bundle_of(session)["process"]["signal"] == 9
    assert session.say("what did I say?").startswith("SEEN 2")


def test_a_wrapper_killed_takes_its_agent_with_it(live: Live) -> None:
    session = live.new("--wrapper", "--deaf")
    cookie = session.cookie
    session.send("/spawn-setsid 300\n/sleep 300")
    session.wait_for_text("spawned")
    kill(session.agent)
    wait_until(lambda: not carrying(cookie), GONE_WITHIN)
    check_crashed(session, "signal 9")


def test_the_prompt_says_that_the_agent_died(live: Live) -> None:
    session = live.new()
    error = session.error("prompt", "/crash", code=7)
    assert "agent" in error["message"]
    assert "signal 9" in error["message"]
    assert error["hint"] == f"agh session queue retry {session.id} 1"


def test_a_dead_leash_ends_the_session(live: Live) -> None:
    session = live.new()
    with session.start_prompt("/say begun\n/sleep 30") as watcher:
        session.wait_for_text("begun")
        cookie = session.cookie
        kill(session.leash)
        watcher.communicate(timeout=20)
    assert watcher.returncode == 7
    wait_until(lambda: not carrying(cookie), GONE_WITHIN)
    check_crashed(session, "leash")
    bundle_of(session)
    assert session.say("what did I say?").startswith("SEEN 2")


@pytest.mark.parametrize("options", [(), ("--wrapper", "--deaf")])
def test_nothing_outlives_a_dead_leash_for_long(live: Live, options: tuple[str, ...]) -> None:
    """Without the leash the keeper is the last who knows the launch: it must see to what escaped."""
    session = live.new(*options)
    cookie = session.cookie
    session.send("/spawn-setsid 300\n/sleep 300")
    session.wait_for_text("spawned")
    kill(session.leash)
    wait_until(lambda: not session.is_live())
    session.agh("resume")
    try:
        wait_until(lambda: not carrying(cookie), GONE_WITHIN)
    finally:
        for process in carrying(cookie):
            kill(process.pid)
    session.kill_keeper()  # to stop a deaf agent would take all the graces


def test_the_bundle_of_a_failed_start(live: Live) -> None:
    argv = f"sh -c 'echo token={SECRET} is bad >&2; exit 4'"
    live.agh("session", "new", "--command", argv, env={"MY_API_KEY": SECRET}, code=7)
    (session,) = live.sessions()
    wait_until(lambda: not session.is_live())
    meta = session.meta()
    assert (meta["state"], meta["stop_reason"]) == ("stopped", "error")
    assert meta["failure"]["kind"] == "startup_failure"
    document = json.loads(Path(meta["failure"]["crash_bundle_path"]).read_text())
    assert document["process"]["exit_code"] == 4
    assert "is bad" in document["stderr"]
    assert SECRET not in json.dumps(document["stderr"])


def test_a_secret_does_not_leave_by_the_error_message(live: Live) -> None:
    argv = "sh -c 'echo my key is $MY_API_KEY, alas >&2; exit 4'"
    result = live.agh("session", "new", "--command", argv, env={"MY_API_KEY": SECRET}, code=7)
    assert "alas" in result.stderr
    assert SECRET not in result.stderr
    (session,) = live.sessions()
    assert SECRET not in (session.directory / "meta.json").read_text()
    assert SECRET not in (session.directory / "keeper.log").read_text()
    assert SECRET not in json.dumps([event.content for event in session.events()])
