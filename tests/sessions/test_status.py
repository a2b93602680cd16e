"""`agh session status`: is the agent running, can and should the session be resumed, and why?"""

from __future__ import annotations

import json
import os
import signal

from tests.support.live import Live, Session
from tests.support.terminal import open_terminal
from tests.support.wait import wait_until

VANISHED = "keeper ended without closing the session"


def recovery(session: Session) -> tuple[bool, bool, bool, str]:
    view = session.status()
    return (
        view["is_agent_running"], view["is_resumable"], view["needs_resume"], view["resume_reason"]
    )  # fmt: skip


def listed(session: Session) -> dict[str, object]:
    views = json.loads(session.live.agh("session", "list", "--all", "-o", "json").stdout)["sessions"]
    (found,) = [view for view in views if view["id"] == session.id]
    return dict(found)


def test_a_keeper_that_answers(live: Live) -> None:
    session = live.new()
    view = session.status()
    assert recovery(session) == (True, True, False, "already_running")
    assert (view["state"], view["phase"], view["badge"]) == ("active", "idle", "idle")
    assert view["keeper"]["pid"] == session.keeper
    assert view["keeper"]["started_at"]
    session.send("/ask path=a.txt")
    wait_until(lambda: session.count("permission"))
    assert recovery(session) == (True, True, False, "already_running")
    assert (listed(session)["phase"], listed(session)["badge"]) == (
        "waiting_for_permission", "waiting-for-input"
    )  # fmt: skip
    session.decide("deny")
    session.wait_idle()
    session.send("/sleep 30")
    wait_until(lambda: listed(session)["phase"] == "running", 5)
    assert listed(session)["badge"] == "running"


def starting(live: Live) -> Session:
    live.start("session", "new", "--agent", "echo", env={"AGH_ECHO_OPTIONS": "--init-delay 60"})
    (session,) = wait_until(live.sessions)
    wait_until(lambda: (session.directory / "meta.json").exists() and session.meta().get("launch"))
    return session


def test_a_keeper_that_is_starting(live: Live) -> None:
    session = starting(live)
    assert recovery(session) == (False, True, False, "stale_execution")
    view = session.status()
    assert (view["state"], view["phase"], view["badge"]) == ("starting", "starting", "running")
    keeper = session.meta()["keeper"]["pid"]
    os.kill(keeper, signal.SIGKILL)


def test_a_keeper_that_died_while_starting(live: Live) -> None:
    session = starting(live)
    os.kill(session.meta()["keeper"]["pid"], signal.SIGKILL)
    wait_until(lambda: not session.is_live())
    assert recovery(session) == (False, True, True, "agent_not_running_fresh_start")
    view = session.status()
    assert (view["state"], view["stop_reason"], view["stop_detail"]) == ("stopped", "error", VANISHED)
    assert view["failure"]["kind"] == "startup_failure"
    assert session.say("hello") == "echo: hello"


def test_a_keeper_that_does_not_answer(shared: Session) -> None:
    keeper = shared.keeper
    os.kill(keeper, signal.SIGSTOP)
    try:
        assert recovery(shared) == (False, True, False, "stale_execution")
    finally:
        os.kill(keeper, signal.SIGCONT)
    assert recovery(shared) == (True, True, False, "already_running")


def test_a_keeper_that_is_stopping(live: Live) -> None:
    session = live.new("--deaf")
    stopping = live.start("session", "stop", session.id)
    wait_until(lambda: session.meta()["state"] == "stopping")
    assert recovery(session) == (False, True, False, "stale_execution")
    stopping.wait(30)


def test_a_keeper_that_is_gone(live: Live) -> None:
    session = live.new()
    session.send("/say begun\n/sleep 30")
    session.wait_for_text("begun")
    meta = session.meta()
    session.kill_keeper()
    assert recovery(session) == (False, True, True, "agent_not_running")
    for view in (session.status(), listed(session)):
        assert (view["state"], view["stop_reason"], view["stop_detail"]) == (
            "stopped",
            "agent_crashed",
            VANISHED,
        )
        assert (view["phase"], view["badge"], view["attachable"]) == ("failed", "failed", False)
        assert view["failure"]["kind"] == "process_exit"  # type: ignore[index]
    assert session.meta() == meta, "reading never writes"
    assert "agh session resume" in session.agh("status").stdout


def test_sessions_that_ended(live: Live) -> None:
    completed, cancelled, failed = live.new(), live.new(), live.new()
    completed.stop()
    cancelled.send("/sleep 30")
    cancelled.stop()
    failed.send("/exit 3")
    wait_until(lambda: not failed.is_live())
    assert recovery(completed) == (False, True, False, "completed")
    assert recovery(cancelled) == (False, True, False, "cancelled")
    assert recovery(failed) == (False, True, False, "failed")
    assert failed.status()["failure"]["kind"] == "process_exit"
    assert [listed(one)["badge"] for one in (completed, cancelled, failed)] == [
        "stopped",
        "stopped",
        "failed",
    ]


def test_a_list_knows_the_last_message_and_the_open_question(live: Live) -> None:
    """They are in meta.json: a list reads nothing else."""
    session = live.new()
    assert session.meta().get("last_message") is None
    session.tell("/say Looking at it.\n/say Shall I fix the clock?")
    wait_until(lambda: session.meta().get("last_message") == "Shall I fix the clock?")
    session.send("/ask path=a.txt Edit a.txt")
    wait_until(lambda: listed(session)["badge"] == "waiting-for-input")
    assert session.meta()["activity"]["question"] == f"edit: {live.workspace}/a.txt"
    session.decide("deny")
    session.wait_idle()
    wait_until(lambda: session.meta()["activity"]["question"] is None)
    assert (listed(session)["phase"], listed(session)["badge"]) == ("idle", "idle")


def test_the_last_message_has_no_secrets_and_is_short(shared: Session) -> None:
    secret = "sk-ant-api03-" + "Zx9" * 30
    shared.tell(f"/say {'word ' * 100}the key is {secret} so")
    wait_until(lambda: str(shared.meta()["last_message"]).endswith(" so"))
    message = shared.meta()["last_message"]
    assert "Zx9" not in message
    assert message.startswith("…")
    assert len(message) <= 200


def test_a_watched_list_lives(live: Live) -> None:
    session = live.new(args=("--name", "alpha"))
    with open_terminal(live, "ls", "--watch", TERM="xterm-256color", COLUMNS="100") as terminal:
        terminal.shows("alpha")
        terminal.shows("idle")
        session.tell("/say the news")
        terminal.shows("the news")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.ends() == 0
    assert terminal.printed.endswith("\x1b[?25h\x1b[?1049l")
    assert live.agh("ls", "--watch", code=2).stderr.startswith("agh: --watch needs a terminal")
