"""A log that is shorter than its metadata says: restored from a backup, or cut short by its disk."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.support.live import Live, Session
from tests.support.resume import copy_stopped


@pytest.fixture(scope="module")
def module_short(module_live: Live) -> Live:
    """Make a home whose only session lacks its second turn in its log."""
    session = module_live.new()
    session.tell("one")
    session.stop()
    shutil.copy(session.directory / "events.db", module_live.home / "backup")
    session.revive()
    session.tell("two")
    session.stop()
    for suffix in ("-wal", "-shm"):
        (session.directory / f"events.db{suffix}").unlink(missing_ok=True)
    shutil.copy(module_live.home / "backup", session.directory / "events.db")
    return module_live


@pytest.fixture
def short(module_short: Live, live: Live) -> Session:
    """Return a session whose second turn is missing from its log: a copy of the test's own."""
    copy_stopped(module_short.home.parent, live.home.parent)
    (session,) = live.sessions()
    return session


def test_doctor_says_so(short: Session) -> None:
    last = short.meta()["last_sequence"]
    doctor = short.live.agh("doctor", "-o", "json", code=8)
    (check,) = [check for check in json.loads(doctor.stdout)["doctor"] if check["name"] == short.id]
    assert not check["ok"]
    assert f"ends at event {len(short.events())}" in check["detail"]
    assert str(last) in check["detail"]


@pytest.mark.parametrize("command", ["repair", "resume", "prompt"])
def test_sequences_are_never_used_again(short: Session, command: str) -> None:
    last, before = short.meta()["last_sequence"], short.events()
    assert last > len(before)
    result = short.agh(command, *(["three"] if command == "prompt" else []))
    if command == "repair":
        lost = last - len(before)
        assert result.stdout == f"{short.id}  repaired: the log lacked {lost} events at its end\n"
    events = short.events()
    assert events[: len(before)] == before
    assert {event.type for event in events[len(before) : last]} == {"event_lost"}
    marker = events[last]
    assert (marker.type, marker.content["kind"]) == ("transcript_marker.created", "events_lost")
    assert marker.content["severity"] == "warning"
    assert str(last - len(before)) in marker.content["summary"]
    assert short.text().startswith("echo: one")
    short.check_log()
    short.agh("transcript")
    if command == "repair":
        short.live.agh("doctor", code=0)
        short.agh("repair")
        assert short.events() == events, "once is enough"


def test_a_log_that_is_shorter_by_far_is_refused(short: Session) -> None:
    meta = short.meta()
    (short.directory / "meta.json").write_text(json.dumps(meta | {"last_sequence": 10**12}))
    error = short.error("prompt", "hello", code=8)
    assert error["code"] == "events_lost"
    assert short.count("event_lost") == 0
