"""`agh session redact`: what it hides is hidden wherever agh shows or copies the session."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from tests.support.live import Live, Session
from tests.support.wait import wait_until

SECRET = "xyzzy-plover"
PARTS = {
    "user": f"/say nothing about {SECRET}",
    "assistant": f"/say I know {SECRET} now",
    "tool_call": f"/tool Bash kind=execute word={SECRET} fine",
    "tool_result": f"/tool Bash kind=execute it printed {SECRET}",
}


def _messages(session: Session) -> list[dict[str, object]]:
    document = json.loads(session.agh("transcript", "-o", "json").stdout)
    messages: list[dict[str, object]] = document["messages"]
    return messages


def _with_secret(session: Session) -> list[str]:
    return [str(message["id"]) for message in _messages(session) if SECRET in json.dumps(message)]


def _exports(session: Session, folder: Path) -> dict[str, bytes]:
    files = {}
    for name in ("jsonl", "markdown", "html", "db"):
        path = folder / f"{session.id}.{name}"
        session.agh("export", "-o", name, "--to", path)
        files[name] = path.read_bytes()
    return files


@pytest.fixture(params=["live", "stopped"])
def talked(live: Live, request: pytest.FixtureRequest) -> Session:
    session = live.new(args=("--permissions", "approve-all"))
    for prompt in PARTS.values():
        session.tell(prompt)
    session.tell("/say the end")
    if request.param == "stopped":
        session.agh("pause")
    return session


def test_it_is_hidden_everywhere(talked: Session, tmp_path: Path) -> None:
    live = talked.live
    database = tmp_path / "all.db"
    live.agh("db", "build", database)
    found = live.agh("session", "search", "plover", "-o", "json").stdout
    assert len(json.loads(found)["matches"]) >= len(PARTS)
    before, ids = talked.events(), _with_secret(talked)
    result = talked.agh("redact", *ids, "-o", "json")
    redacted = json.loads(result.stdout)["redacted"]
    assert [entry["marker_id"] for entry in redacted] == ids
    wait_until(lambda: talked.count("transcript_marker.redacted") == len(ids))
    assert talked.events()[: len(before)] == before, "the log is not edited"

    assert SECRET not in json.dumps(_messages(talked))
    for verb in (["events"], ["history", "-o", "json"], ["recap", "-o", "json"], ["transcript"]):
        assert SECRET not in talked.agh(*verb).stdout, verb
    assert SECRET not in live.agh("session", "queue", "list", talked.id, "--all", "-o", "json").stdout
    assert SECRET not in talked.agh("transcript", "-o", "html").stdout
    assert SECRET not in talked.agh("permissions", "--all", "-o", "json").stdout
    live.agh("session", "search", "plover", code=1)
    live.agh("db", "build", database)
    assert SECRET.encode() not in _all_text(database)
    for name, data in _exports(talked, tmp_path).items():
        assert SECRET.encode() not in data, name
    fork = live.session(live.agh("session", "fork", talked.id).stdout.split()[0])
    assert SECRET not in str(fork.fetch("SELECT content FROM events"))
    fork.stop()
    checkpoint = talked.directory / "checkpoint.json"
    assert not checkpoint.exists() or SECRET not in checkpoint.read_text()
    assert SECRET not in json.dumps(talked.status())


def _all_text(database: Path) -> bytes:
    """Return what the tables have; pages that are free may still have more."""
    with sqlite3.connect(database) as connection:
        return "\n".join(connection.iterdump()).encode()


def test_the_log_keeps_it_and_the_rest_stays(live: Live) -> None:
    session = live.new()
    session.tell(f"/say one {SECRET}")
    session.tell("/say two")
    session.stop()
    raw = session.directory / "events.db"
    before = raw.read_bytes().count(SECRET.encode())
    (_, answer) = _with_secret(session)
    session.agh("redact", answer)
    assert raw.read_bytes().count(SECRET.encode()) >= before, "nothing is edited"
    texts = [message.get("content") for message in _messages(session)]
    assert texts[:2] == [f"/say one {SECRET}", "[redacted]"]
    assert "two" in texts
    session.agh("redact", answer)  # again: nothing more to hide
    assert session.count("transcript_marker.redacted") == 1
    session.check_log()
    assert session.say("what did I say?").startswith("SEEN 3 user texts"), "the agent's memory is its own"


@pytest.mark.parametrize("which", ["question", "answer"])
def test_a_question_and_its_answer(live: Live, tmp_path: Path, which: str) -> None:
    session = live.new()
    session.send(f"/elicit do you know {SECRET}?")
    wait_until(lambda: session.count("question") == 1)
    session.agh("answer", f"answer=it is {SECRET}")
    session.wait_idle()
    session.stop()
    events = session.events("question")
    assert [SECRET in json.dumps(event.content) for event in events] == [True, True]
    number = events[0 if which == "question" else 1].sequence
    session.agh("redact", f"evt-{number:06d}")
    assert SECRET not in session.agh("events", "--type", "question").stdout
    listed = session.agh("questions", "--all", "-o", "json").stdout
    assert SECRET not in listed
    (row,) = json.loads(listed)["questions"]
    assert (row["message"], row["decision"]) == ("[redacted]", "accepted")
    live.agh("db", "build", tmp_path / "all.db")
    with sqlite3.connect(tmp_path / "all.db") as connection:
        rows = connection.execute("SELECT message, decision, answer, fields FROM questions").fetchall()
    assert rows == [("[redacted]", "accepted", '"[redacted]"', None)]


def test_the_question_about_a_redacted_tool_call(live: Live) -> None:
    session = live.new()
    session.tell(f"/tool Bash id=call-9 word={SECRET} fine")
    session.stop()
    with sqlite3.connect(session.directory / "events.db") as connection:
        connection.execute(
            "INSERT INTO questions (request_id, turn_id, tool_call_id, status, message, request, answer, "
            "created_at) VALUES ('q1', ?, 'call-9', 'decided', ?, '{}', ?, '2026-04-16T02:00:01.000Z')",
            [session.events("tool_call")[0].turn_id, SECRET, json.dumps({"answer": SECRET})],
        )
    session.agh("redact", *_with_secret(session))
    assert SECRET not in session.agh("questions", "--all", "-o", "json").stdout


def test_a_marker(live: Live) -> None:
    session = live.new("--on-resume", "not-found")
    session.tell("hello")
    session.stop()
    session.agh("resume")
    (marker,) = session.events("transcript_marker.created")
    number = f"evt-{marker.sequence:06d}"
    session.agh("redact", number)
    recap = json.loads(session.agh("recap", "-o", "json").stdout)["recap"]
    (shown,) = [entry for entry in recap["recent_markers"] if entry["id"] == number]
    assert (shown["kind"], shown["redacted"]) == ("context_reset", True)
    assert "diagnostic" not in shown
    assert shown["summary"] == "[redacted]"


@pytest.mark.parametrize("event", ["evt-999999", "evt-x", "0", "done"])
def test_what_cannot_be_redacted(shared: Session, event: str) -> None:
    shared.tell("hello")
    if event == "done":
        event = f"evt-{shared.events('done')[0].sequence:06d}"
    before = shared.events()
    assert shared.error("redact", event, code=2)["code"] == "usage"
    assert shared.events() == before
