"""Questions of the agent: rows, events and a badge; answered from anywhere, also after a kill."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from agh.errors import AghError
from tests.support.live import Live, Session
from tests.support.permissions import STAYS, received
from tests.support.questions import form, outcomes, pending, rows
from tests.support.wait import wait_until

COLOUR = {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "b", "title": "Blue"}]}
SIZE = {"type": "integer", "minimum": 3, "maximum": 9}
SURE = {"type": "boolean", "default": False}
TAGS = {"type": "array", "items": {"type": "string", "enum": ["one", "two", "three"]}, "maxItems": 2}
FORM = form("How shall it look?", ("colour", "size"), colour=COLOUR, size=SIZE, sure=SURE, tags=TAGS)

EARLY_AGENT = """
import json, sys
def send(**frame): print(json.dumps({"jsonrpc": "2.0", **frame}), flush=True)
def read(): return json.loads(sys.stdin.readline() or "{}")
while frame := read():
    if frame.get("method") == "initialize":
        send(id=frame["id"], result={"protocolVersion": 1, "agentCapabilities": {}})
    elif frame.get("method") == "session/new":
        shape = {"type": "object", "properties": {"team": {"type": "string"}}, "required": ["team"]}
        params = {"mode": "form", "requestId": frame["id"], "message": "Which team?"}
        params["requestedSchema"] = shape
        send(id="early", method="elicitation/create", params=params)
        open("answer", "w").write(json.dumps(read()))
        send(id=frame["id"], result={"sessionId": "s1"})
    elif "id" in frame:
        send(id=frame["id"], result={})
"""


def ask(session: Session, text: str = FORM) -> str:
    """Send a prompt whose step asks, and return the id of the question."""
    session.send(text)
    return pending(session).request_id


def turn_of(session: Session, request_id: str) -> str:
    """Return the id of the turn in which the agent asked."""
    ((turn_id,),) = session.fetch("SELECT turn_id FROM questions WHERE request_id = ?", request_id)
    return str(turn_id)


def raw_form(number: int) -> str:
    """Return a step that asks an empty form and does not wait for the answer."""
    shape = {"type": "object", "properties": {}}
    params = {"sessionId": "any", "mode": "form", "message": "May I?", "requestedSchema": shape}
    frame = {"jsonrpc": "2.0", "id": number, "method": "elicitation/create", "params": params}
    return f"/raw {json.dumps(frame)}"


def listed(session: Session, *args: str) -> list[dict[str, Any]]:
    printed = json.loads(session.agh("questions", *args, "-o", "json").stdout)
    questions: list[dict[str, Any]] = printed["questions"]
    return questions


def listed_anywhere(live: Live) -> list[str]:
    """Return the ids of the questions that are listed when no session is named."""
    printed = json.loads(live.agh("session", "questions", "-o", "json").stdout)
    return [question["request_id"] for question in printed["questions"]]


def test_a_question_is_a_row_an_event_and_a_badge(live: Live) -> None:
    session = live.new()
    request_id = ask(session)
    wait_until(lambda: session.status()["phase"] == "waiting_for_answer")
    view = session.status()
    assert (view["badge"], view["activity"]["pending_questions"]) == ("waiting-for-input", 1)
    assert "waiting-for-input" in session.agh("wait", "--until", "question").stdout
    (question,) = listed(session)
    assert question["message"] == "How shall it look?"
    assert [field["name"] for field in question["fields"]] == ["colour", "size", "sure", "tags"]
    assert listed_anywhere(live) == [request_id]
    (event,) = session.events("question")
    assert (event.content["request_id"], event.content["mode"]) == (request_id, "form")
    assert event.content["raw"]["params"]["message"] == "How shall it look?"
    recap = session.agh("recap").stdout
    assert "1 questions from the agent" in recap
    session.agh("answer", "colour=Blue", "size=4", "tags=one,two")
    session.wait_idle()
    answer = {"colour": "b", "size": 4, "sure": False, "tags": ["one", "two"]}
    assert f"form: accept {json.dumps(answer)}" in session.text()
    asked, answered = session.events("question")
    assert answered.turn_id == asked.turn_id != ""
    assert (answered.content["decision"], answered.content["decided_by"]) == ("accepted", "user")
    assert answered.content["answer"] == answer
    assert listed(session) == []
    assert listed(session, "--all")[0]["answer"] == answer
    wait_until(lambda: session.status()["badge"] == "idle")


MISFITS = [
    (["colour=green", "size=4"], "'green' is not one of r, b"),
    (["colour=r", "size=2"], "size: it must be at least 3"),
    (["colour=r", "size=10"], "size: it must be at most 9"),
    (["colour=r", "size=4.5"], "not a whole number"),
    (["colour=r", "size=four"], "not a number"),
    (["colour=r"], "size is required"),
    (["colour=r", "size=4", "shape=round"], "no field 'shape'"),
    (["colour=r", "size=4", "sure=perhaps"], "yes or no"),
    (["colour=r", "size=4", "tags=one,two,three"], "at most 2 items"),
]


def test_an_answer_that_does_not_fit_changes_nothing(live: Live) -> None:
    session = live.new()
    request_id = ask(session)
    for words, reason in MISFITS:
        error = session.error("answer", *words, code=2)
        assert error["code"] == "answer_invalid", words
        assert reason in error["message"]
        content = dict(word.split("=") for word in words)
        with pytest.raises(AghError, match="does not fit"):  # the keeper checks for itself
            session.call("answer", request_id=request_id, decision="accepted", content=content)
        assert outcomes(session) == [(None, None)], words


@pytest.mark.parametrize(
    ("flag", "action", "decision"),
    [("--decline", "decline", "declined"), ("--cancel", "cancel", "cancelled")],
)
def test_declined_and_cancelled(shared: Session, flag: str, action: str, decision: str) -> None:
    request_id = ask(shared)
    assert shared.error("answer", "size=4", flag, code=2)["code"] == "usage"
    shared.agh("answer", flag)
    shared.wait_idle()
    assert f"form: {action} {{}}" in shared.text(turn_of(shared, request_id))
    assert outcomes(shared)[-1] == (decision, "user")


def test_without_an_answer_nothing_is_accepted(shared: Session) -> None:
    request_id = ask(shared, form("All optional", sure=SURE))
    assert "say what to answer" in shared.error("answer", code=2)["message"]
    assert outcomes(shared)[-1] == (None, None)
    shared.agh("answer", "--accept")
    shared.wait_idle()
    assert 'form: accept {"sure": false}' in shared.text(turn_of(shared, request_id))


def test_of_several_none_is_picked(live: Live) -> None:
    session = live.new()
    session.send("\n".join([raw_form(1), raw_form(2)]) + STAYS)
    wait_until(lambda: len(rows(session)) == 2)
    assert session.error("answer", "--accept", code=2)["code"] == "question_ambiguous"
    first = rows(session)[0].request_id
    session.agh("answer", first, "--accept")
    assert session.error("answer", first, "--accept", code=4)["code"] == "question_unknown"
    session.agh("answer", "--decline")
    assert outcomes(session) == [("accepted", "user"), ("declined", "user")]


def test_a_hook_hears_of_it(live: Live) -> None:
    live.configure("[[hooks]]\nevent = 'question'\ncommand = 'cat > heard'\n")
    session = live.new()
    request_id = ask(session, "/elicit Anyone?")
    heard = live.workspace / "heard"
    wait_until(lambda: heard.exists() and heard.read_text().strip())
    payload = json.loads(heard.read_text())
    assert (payload["event"], payload["request_id"], payload["message"]) == (
        "question",
        request_id,
        "Anyone?",
    )


def test_nobody_answers_in_time(live: Live) -> None:
    live.configure("[questions]\ntimeout = '0.2s'")
    session = live.new()
    assert session.tell("/elicit Anyone?") == "elicit: decline {}"
    assert outcomes(session) == [("declined", "timeout")]
    assert "question_timeout" in session.markers()


def test_no_ask_declines_and_says_so(shared: Session) -> None:
    process = shared.prompt("/elicit Which one?", "--no-ask")
    assert "declined a question from the agent, because of --no-ask: Which one?" in process.stderr
    assert "elicit: decline {}" in process.stdout
    assert outcomes(shared)[-1] == ("declined", "no-ask")


def test_the_end_of_the_turn_closes_it(shared: Session) -> None:
    ask(shared, "/elicit Still there?")
    shared.call("cancel")
    shared.wait_idle()
    assert outcomes(shared)[-1] == ("cancelled", "cancel")
    assert shared.status()["badge"] == "idle"


def test_what_the_agent_takes_back_is_closed(shared: Session) -> None:
    assert shared.tell("/form-withdrawn") == "form: error -32800 cancelled {}"
    assert shared.tell("/link-done https://example.org/login") == "link: cancel {}"
    assert outcomes(shared)[-2:] == [("cancelled", "agent"), ("cancelled", "completed")]


def test_a_link_is_opened_only_after_a_yes(live: Live, tmp_path: Path) -> None:
    opened, browser = tmp_path / "opened", tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {opened}\n')
    browser.chmod(0o755)
    env = {"BROWSER": str(browser)}
    session = live.new()
    for decision in ("--decline", "--accept"):
        assert not opened.exists()
        ask(session, "/link https://example.org/a?b=c Please log in.")
        (question,) = listed(session)
        assert (question["mode"], question["url"]) == ("url", "https://example.org/a?b=c")
        session.agh("answer", decision, env=env)
        session.wait_idle()
    assert "link: decline {}" in session.text()
    assert "link: accept {}" in session.text()
    wait_until(opened.exists)
    assert opened.read_text() == "https://example.org/a?b=c\n"
    wait_until(lambda: any("elicitation/complete" in str(e.content) for e in session.events("system")))


def test_an_agent_does_not_answer_itself(live: Live) -> None:
    live.configure("[[permissions.rules]]\ndecision = 'allow'\nkind = 'execute'\n")
    session = live.new()
    line = f"{sys.executable} -m agh session answer {session.id} --accept 2>&1; echo exit $?"
    session.send(f"{raw_form(1)}\n/run {line}{STAYS}")
    wait_until(lambda: "exit 5" in session.text(), what="the refusal")
    assert "cannot answer its own requests" in session.text()
    assert [row.status for row in rows(session)] == ["pending"]
    (warning,) = session.events("runtime_warning")
    assert "tried to answer ques-" in warning.content["text"]


def test_before_the_first_turn(live: Live, tmp_path: Path) -> None:
    agent = tmp_path / "early.py"
    agent.write_text(EARLY_AGENT)
    command = ("--command", f"{sys.executable} {agent}")
    process = live.agh("session", "new", "--no-ask", *command)
    assert "the agent asks: Which team?" in process.stderr
    assert json.loads((live.workspace / "answer").read_text())["result"] == {"action": "decline"}


# The keeper dies, or the session ends, while a question waits.


def test_after_a_kill_the_answer_is_a_prompt(live: Live) -> None:
    session = live.new()
    session.tell("remember this")
    request_id = ask(session)
    session.kill_keeper()
    (question,) = listed(session)
    assert (question["request_id"], question["status"]) == (request_id, "orphaned")
    assert rows(session)[0].status == "pending", "reading changes nothing"
    assert listed_anywhere(live) == [request_id]
    assert session.error("answer", "colour=r", "size=1", code=2)["code"] == "answer_invalid"
    assert not session.is_live(), "a wrong answer resumes nothing"
    process = session.agh("answer", request_id, "colour=r", "size=5")
    assert "the session was resumed to deliver the answer" in process.stderr
    assert "the question and your answer were sent as a prompt" in process.stderr
    session.wait_idle()
    (prompt,) = [text for text in received(session) if "How shall it look?" in text and "/form" not in text]
    assert "- colour: r\n- size: 5\n- sure: no" in prompt
    assert [row.decision for row in rows(session)] == ["accepted"]
    decisions = [event.content.get("decision") for event in session.events("question")]
    assert decisions == [None, "orphaned", "accepted"]
    assert session.meta()["orphaned_questions"] == 0
    assert session.error("answer", request_id, "colour=r", "size=5", code=4)["code"] == "question_unknown"
    session.check_log()


def test_repair_leaves_it_answerable_and_is_safe_to_repeat(live: Live) -> None:
    session = live.new()
    request_id = ask(session)
    session.kill_keeper()
    report = json.loads(session.agh("repair", "-o", "json").stdout)
    assert "orphaned_question" in [issue["code"] for issue in report["issues"]]
    assert json.loads(session.agh("repair", "--force", "-o", "json").stdout)["actions"] == []
    assert session.meta()["orphaned_questions"] == 1
    assert "(1 open question)" in live.agh("session", "list", "--all").stdout
    assert listed_anywhere(live) == [request_id]
    session.agh("answer", "--decline")
    assert not session.is_live(), "declining needs no agent"
    assert outcomes(session) == [("declined", "user")]
    assert session.meta()["orphaned_questions"] == 0
    assert session.meta()["last_sequence"] == session.events()[-1].sequence
    session.check_log()


@pytest.mark.parametrize("end", ["stop", "agent"])
def test_the_end_of_the_session_orphans_it(live: Live, end: str) -> None:
    session = live.new()
    request_id = ask(session)
    if end == "stop":
        session.stop()
    else:
        os.kill(session.agent, 9)
        wait_until(lambda: session.meta()["state"] == "stopped")
    assert [(row.request_id, row.status) for row in rows(session)] == [(request_id, "orphaned")]
    assert listed_anywhere(live) == [request_id]
    session.agh("answer", "colour=b", "size=3")
    session.wait_idle()
    assert "How shall it look?" in received(session)[-1]


def test_an_orphaned_permission_is_only_shown(live: Live) -> None:
    session = live.new()
    session.send("/ask path=a.txt")
    wait_until(lambda: session.fetch("SELECT 1 FROM permissions WHERE status = 'pending'"))
    session.kill_keeper()
    assert session.error("approve", code=7)["code"] == "keeper_gone"
    session.revive()
    assert session.error("approve", code=4)["code"] == "permission_unknown"
    (row,) = json.loads(session.agh("permissions", "--all", "-o", "json").stdout)["permissions"]
    assert row["decision"] == "expired"


def test_a_session_of_an_earlier_version_has_no_questions(talked: Session) -> None:
    with sqlite3.connect(talked.directory / "events.db") as db:
        db.executescript(
            "DROP TABLE questions; ALTER TABLE inputs DROP COLUMN park; PRAGMA user_version = 2;"
        )
    db.close()
    assert listed(talked, "--all") == []
    assert talked.error("answer", "--decline", code=4)["code"] == "question_unknown"
    talked.agh("recap")
    export = talked.live.workspace / "old.db"
    talked.agh("export", "--format", "db", "--to", str(export))
    assert talked.say("hello") == "echo: hello"
    assert ask(talked)
