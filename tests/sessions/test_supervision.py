"""Turns that nobody watches: told of, warned of once, ended when they hang. Short limits, real silence."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agh import home
from agh.keeper.turns import supervise as supervise_turns
from agh.store.views import session_view
from tests.support.live import Event, Live, Session
from tests.support.permissions import pending
from tests.support.wait import PATIENCE, wait_until

RUNTIME = {
    "turn_id",
    "turn_source",
    "last_activity_at",
    "last_activity_kind",
    "last_activity_detail",
    "current_tool",
    "tool_call_id",
    "last_progress_at",
    "idle_seconds",
    "elapsed_seconds",
}
QUIET = {
    "heartbeat": "60s",
    "progress_notify_interval": "60s",
    "inactivity_warning_after": "60s",
    "inactivity_timeout": "60s",
    "tool_inactivity_timeout": "60s",
    "timeout_cancel_grace": "0.4s",
}


def supervise(live: Live, *more: str, **limits: str) -> None:
    lines = [f"{key} = '{value}'" for key, value in {**QUIET, **limits}.items()]
    live.configure("\n".join([*more, "[session.supervision]", *lines]))


@pytest.fixture(scope="module")
def module_warning(module_live: Live) -> Session:
    supervise(module_live, inactivity_warning_after="0.4s")
    return module_live.new()


@pytest.fixture
def warning(shared_live: Live, module_warning: Session) -> Session:
    """Return a live session with a warning after 0.4 s, for tests that look at turns of their own."""
    return module_warning


@pytest.fixture(scope="module")
def module_telling(module_live: Live) -> Session:
    supervise(module_live, progress_notify_interval="0.2s")
    return module_live.new()


@pytest.fixture
def telling(shared_live: Live, module_telling: Session) -> Session:
    """Return a live session that tells of its progress, for tests that look at turns of their own."""
    return module_telling


def progress_of(session: Session, text: str) -> list[Event]:
    """Let a turn run to its end; return what it told of its progress."""
    session.tell(text)
    return session.events("runtime_progress", turn=session.events("done")[-1].turn_id)


def view(session: Session) -> dict[str, Any]:
    """Return what `status` and `list` show."""
    return session_view(home.Session.at(session.directory))


def marker(session: Session, kind: str) -> Event:
    return next(
        event for event in session.events("transcript_marker.created") if event.content["kind"] == kind
    )


def test_silence_while_a_tool_runs_is_not_silence(live: Live) -> None:
    supervise(live, inactivity_timeout="0.6s", tool_inactivity_timeout="20s")
    session = live.new()
    assert session.tell("/tool Build delay=2\n/say built") == "built"
    assert session.events("done")[0].content["stop_reason"] == "end_turn"
    assert session.markers() == []
    assert session.is_live()


def test_a_tool_that_hangs_has_its_own_limit(live: Live) -> None:
    supervise(live, inactivity_timeout="0.2s", tool_inactivity_timeout="1s")
    session = live.new()
    started = time.monotonic()
    session.tell("/tool Build delay=30")
    assert time.monotonic() - started >= 1
    assert session.events("done")[0].content["stop_reason"] == "cancelled"
    assert "prompt_timeout" in session.markers()


def test_silence_without_a_tool_is_cancelled(live: Live) -> None:
    """The agent listens: the turn ends, the session goes on."""
    supervise(live, inactivity_warning_after="0.3s", inactivity_timeout="0.8s")
    session = live.new()
    with session.start_prompt("/say begun\n/sleep 30") as viewer:
        wait_until(lambda: view(session)["badge"] == "unhealthy")
        _, err = viewer.communicate(timeout=PATIENCE)
    assert viewer.returncode == 3
    assert b"cancelled" in err
    (event,) = session.events("done")
    assert (event.content["stop_reason"], event.content["failure_kind"]) == ("cancelled", "timeout")
    warned, cancelled = session.events("runtime_warning")
    assert "No activity" in warned.content["text"]
    assert "Cancelled" in cancelled.content["text"]
    for one in (warned, cancelled):
        assert set(one.content["runtime"]) == RUNTIME
        assert one.turn_id == one.content["runtime"]["turn_id"] == event.turn_id
    order = [warned, marker(session, "session_unhealthy"), cancelled, marker(session, "prompt_timeout")]
    order += [marker(session, "prompt_cancel"), event]
    assert [one.sequence for one in order] == sorted(one.sequence for one in order)
    assert session.tell("/say well again") == "well again"
    wait_until(lambda: session.status()["badge"] == "idle")


@pytest.mark.parametrize("deaf", ["/hang", "/ignore-cancel\n/sleep 30"])
def test_one_that_ignores_the_cancel_is_stopped(live: Live, deaf: str) -> None:
    # By default the grace of this cancel and that of any other are equal, too.
    grace = "[session]\ncancel_grace = '0.8s'"
    supervise(live, grace, inactivity_timeout="0.5s", timeout_cancel_grace="0.8s")
    session = live.new()
    viewer = session.start_prompt(f"/say begun\n{deaf}")
    seen = wait_until(lambda: (now := view(session))["badge"] == "hung" and now)
    assert (seen["state"], seen["attachable"]) == ("active", False)
    session.send("/say waited")
    viewer.communicate(timeout=PATIENCE)
    assert viewer.returncode == 3
    wait_until(lambda: not session.is_live())
    meta = session.meta()
    assert (meta["state"], meta["stop_reason"], meta["stop_detail"]) == (
        "stopped",
        "timeout",
        "activity_timeout",
    )
    assert meta["failure"]["kind"] == "timeout"
    assert session.status()["badge"] == "failed"
    bundle = Path(meta["failure"]["crash_bundle_path"])
    assert json.loads(bundle.read_bytes())["failure"]["kind"] == "timeout"
    stopped = session.events()[-1]
    assert (stopped.type, stopped.content["stop_reason"]) == ("session_stopped", "timeout")
    timeout, cancel = marker(session, "prompt_timeout"), marker(session, "prompt_cancel")
    (ended,) = session.events("done", "error")
    assert timeout.sequence < cancel.sequence < ended.sequence < stopped.sequence
    assert (ended.type, ended.content["failure_kind"]) == ("error", "timeout")
    assert session.inputs()[1] == ("queued", "/say waited")
    assert session.say("/say revived") == "revived"
    assert session.inputs()[1] == ("sent", "/say waited")


def test_the_end_of_a_hanging_turn_says_why(live: Live) -> None:
    supervise(live, inactivity_timeout="0.5s", timeout_cancel_grace="0.1s")
    session = live.new()
    result = session.prompt("/hang", code=None)
    assert "no activity for" in result.stderr
    assert "no activity for" in session.events("error")[0].content["error"]


def test_progress_is_told_and_is_no_chat(telling: Session) -> None:
    events = progress_of(telling, "/tool Build id=call-9 kind=execute delay=1.2\n/sleep 0.8\n/say built")
    assert len(events) >= 3
    for event in events:
        assert set(event.content["runtime"]) == RUNTIME
        assert "Still working" in event.content["text"]
    during, after = events[0].content["runtime"], events[-1].content["runtime"]
    assert (during["current_tool"], during["tool_call_id"]) == ("execute", "call-9")
    assert (after["current_tool"], after["tool_call_id"]) == (None, None)
    assert during["turn_id"] == events[0].turn_id
    assert [type(during[key]) for key in ("idle_seconds", "elapsed_seconds")] == [int, int]
    messages = json.loads(telling.agh("transcript", "-o", "json").stdout)["messages"]
    assert "Still working" not in json.dumps(messages)


def test_one_warning_per_turn_and_every_recovery(warning: Session) -> None:
    warned, markers = len(warning.events("runtime_warning")), len(warning.markers())
    for _ in range(2):
        warning.tell("/sleep 0.8\n/say a\n/sleep 0.8\n/stream 4 0.1")
    warnings = warning.events("runtime_warning")[warned:]
    assert len(warnings) == 2
    assert len({event.turn_id for event in warnings}) == 2
    assert warning.markers()[markers:] == ["session_unhealthy", "session_recovered"] * 4
    wait_until(lambda: view(warning)["badge"] == "idle")


def test_the_end_of_a_silent_turn_is_a_recovery_too(warning: Session) -> None:
    markers = len(warning.markers())
    warning.tell("/sleep 1")
    assert warning.markers()[markers:] == ["session_unhealthy", "session_recovered"]


def test_zero_is_off(live: Live) -> None:
    off = ("heartbeat", "progress_notify_interval", "inactivity_warning_after", "inactivity_timeout")
    supervise(live, **dict.fromkeys(off, "0s"), tool_inactivity_timeout="0s", timeout_cancel_grace="0.2s")
    session = live.new()
    assert session.tell("/sleep 1\n/tool Build delay=0.5\n/say done") == "done"
    assert session.events("runtime_progress", "runtime_warning") == []
    assert session.markers() == []


@pytest.mark.parametrize(("manners", "ends"), [("", True), ("/ignore-cancel\n", False)])
def test_a_turn_that_takes_too_long_though_it_talks(live: Live, manners: str, ends: bool) -> None:
    supervise(live, prompt_deadline="0.6s")
    session = live.new()
    session.send(f"{manners}/stream 1000 0.05")
    if ends:
        session.wait_idle()
        assert session.events("done")[0].content["stop_reason"] == "cancelled"
        assert session.is_live()
    else:
        wait_until(lambda: not session.is_live())
        meta = session.meta()
        assert (meta["stop_reason"], meta["stop_detail"]) == ("timeout", "prompt_deadline")
    assert "prompt_timeout" in session.markers()


def test_to_wait_for_a_person_is_not_inactivity(live: Live) -> None:
    supervise(
        live, inactivity_warning_after="0.2s", inactivity_timeout="0.4s", tool_inactivity_timeout="0.4s"
    )
    session = live.new()
    session.send("/ask path=a.txt")
    pending(session)
    time.sleep(1.2)
    assert session.events("runtime_warning") == []
    session.agh("approve")
    session.wait_idle()
    assert session.text() == "permission: allow_once"
    assert session.markers() == []


def test_a_heartbeat_is_metadata_only(live: Live) -> None:
    supervise(live, heartbeat="0.1s")
    session = live.new()
    session.send("/say begun\n/sleep 30")
    session.wait_for_text("begun")
    before = session.meta()
    wait_until(lambda: session.meta()["updated_at"] > before["updated_at"])
    first = session.meta()
    wait_until(lambda: session.meta()["updated_at"] > first["updated_at"])
    assert session.events()[-1].type == "agent_message"
    now = session.meta()
    same = ("state", "turns", "keeper", "launch", "acp_session_id", "limits")
    assert [now[key] for key in same] == [before[key] for key in same]
    assert now["activity"]["last_activity_at"] == first["activity"]["last_activity_at"], "that is the agent's"


def test_a_keeper_that_slept_does_not_take_it_for_silence(live: Live) -> None:
    supervise(
        live, inactivity_warning_after="0.4s", inactivity_timeout="0.8s", progress_notify_interval="0.2s"
    )
    session = live.new()
    session.send("/stream 40 0.05\n/say done")
    session.wait_for_text("chunk 3")
    keeper = session.keeper
    os.kill(keeper, signal.SIGSTOP)
    try:
        time.sleep(1.2)
    finally:
        os.kill(keeper, signal.SIGCONT)
    session.wait_idle()
    assert session.text().endswith("done")
    assert "prompt_timeout" not in session.markers()
    contents = [event.content["runtime"]["idle_seconds"] for event in session.events("runtime_progress")]
    assert min(contents) >= 0


def test_an_idle_session_ends_and_the_next_prompt_revives_it(live: Live) -> None:
    live.configure("[session]\nidle_after = '0.4s'")
    session = live.new()
    session.tell("/sleep 0.6\n/say remembered")
    assert session.events("done")[0].content["stop_reason"] == "end_turn", "a turn is not idle"
    wait_until(lambda: not session.is_live())
    status = session.status()
    assert (status["stop_reason"], status["phase"], status["badge"]) == ("idle", "stopped", "stopped")
    assert (status["needs_resume"], status["is_resumable"], status["failure"]) == (False, True, None)
    assert session.events()[-1].type == "session_stopped"
    assert session.say("what did I say?").startswith('SEEN 2 user texts: "/sleep 0.6\n/say remembered"')


def test_what_the_log_says_of_time_is_in_order(telling: Session) -> None:
    seen: list[dict[str, Any]] = [event.content["runtime"] for event in progress_of(telling, "/sleep 0.7")]
    assert len(seen) >= 2
    moments = [event["last_progress_at"] for event in seen]
    assert moments == sorted(moments)
    assert all(event["last_activity_at"] <= event["last_progress_at"] for event in seen)


def test_to_have_overslept_gives_a_hanging_agent_no_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The keeper was stopped for an hour; what it read on waking is activity of now, not of later."""
    planned: list[Callable[[], None]] = []
    settings = {"session.supervision.heartbeat": 4.0}
    loop = SimpleNamespace(later=lambda _, call: planned.append(call))
    activity = SimpleNamespace(last=0.0)
    turns = SimpleNamespace(current=None)
    live: Any = SimpleNamespace(settings=settings, loop=loop, turns=turns, activity=activity)
    clock = 1000.0
    monkeypatch.setattr(supervise_turns.time, "monotonic", lambda: clock)
    supervise_turns.watch(live, cast(Any, object()))
    clock += 3600
    activity.last = clock
    planned.pop()()
    assert activity.last == clock
