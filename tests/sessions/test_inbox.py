"""`agh inbox`: what waits in all sessions, and answers that reach exactly what they name."""

from __future__ import annotations

import json
import random
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from agh.sessions.requests.inbox import Inbox
from agh.store.reader import Reader
from tests.support.live import Live
from tests.support.permissions import STAYS, requests
from tests.support.permissions import ask_to_edit as ask
from tests.support.questions import form, outcomes
from tests.support.terminal import Terminal, open_terminal
from tests.support.wait import wait_until


def inbox(live: Live, code: int = 0) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads(live.agh("inbox", "-o", "json", code=code).stdout)["inbox"]
    return entries


def test_permissions_are_listed_with_their_diff_and_answered_by_number(live: Live) -> None:
    first, second = live.new(args=("--name", "first")), live.new()
    assert live.agh("inbox", code=1).stderr == "the inbox is empty\n"
    assert live.agh("inbox", "--count", code=1).stdout == "0\n"
    ask(first, "a.txt")
    ask(second, "b.txt", "c.txt")
    text = live.agh("inbox").stdout
    assert re.search(r"^1  permission  first  \d+s\n    edit: .*a\.txt\n", text)
    assert "    -old\n    +new\n" in text
    assert live.agh("inbox", "--count").stdout == "3\n"
    entries = inbox(live)
    assert [(entry["number"], entry["about"][-5:]) for entry in entries] == [
        (1, "a.txt"),
        (2, "b.txt"),
        (3, "c.txt"),
    ]
    assert live.agh("inbox", "approve", "2").stdout.startswith("2  allowed  ")
    assert [entry["number"] for entry in inbox(live)] == [1, 3], "the others keep their numbers"
    live.agh("inbox", "deny", entries[2]["request"]["request_id"], "1")
    assert [request.decision for request in requests(second)] == ["allowed", "denied"]
    assert [request.decision for request in requests(first)] == ["denied"]
    assert inbox(live, code=1) == []


def test_an_answer_to_what_does_not_wait_any_more_answers_nothing(live: Live) -> None:
    session = live.new()
    ask(session, "a.txt", "b.txt")
    inbox(live)
    session.decide("deny")
    result = live.agh("inbox", "approve", "2", "1", "-o", "json", code=4)
    assert json.loads(result.stderr)["error"]["code"] == "inbox_entry_unknown"
    assert [request.status for request in requests(session)] == ["decided", "pending"]
    assert live.agh("inbox", "answer", "2", code=2).stderr.startswith("agh: entry 2 is not a question")
    assert live.agh("inbox", "approve", "77", code=4)


def test_a_question_is_answered_from_the_inbox_live_and_orphaned(live: Live) -> None:
    session = live.new()
    session.send(form("Which?", ("colour",), colour={"type": "string"}) + STAYS)
    wait_until(lambda: (session.meta().get("activity") or {}).get("pending_questions"))
    (entry,) = inbox(live)
    assert (entry["kind"], entry["about"]) == ("question", "Which?")
    live.agh("inbox", "approve", entry["number"], code=2)
    live.agh("inbox", "answer", entry["number"], "colour=blue")
    assert outcomes(session) == [("accepted", "user")]
    session.agh("cancel")
    session.wait_idle()
    session.send(form("Again?", ("colour",), colour={"type": "string"}) + STAYS)
    wait_until(lambda: (session.meta().get("activity") or {}).get("pending_questions"))
    session.kill_keeper()
    kinds = [entry["kind"] for entry in inbox(live)]
    assert sorted(kinds) == ["failure", "question"]
    assert live.agh("inbox", "--count").stdout == "2\n"
    number = next(entry["number"] for entry in inbox(live) if entry["kind"] == "question")
    live.agh("inbox", "answer", number, "--decline")
    assert [entry["kind"] for entry in inbox(live)] == ["failure"]


def test_a_failure_stays_until_it_is_dismissed_and_comes_back_when_it_happens_again(live: Live) -> None:
    session, numbers = live.new(), set()
    for _ in range(2):
        session.prompt("/crash", code=None)
        wait_until(lambda: session.meta()["state"] == "stopped")
        (entry,) = inbox(live)
        assert (entry["kind"], live.agh("inbox", "--count").stdout) == ("failure", "1\n")
        assert live.agh("inbox", "show", entry["number"]).stdout.count("crash bundle") == 1
        live.agh("inbox", "dismiss", entry["number"])
        numbers.add(entry["number"])
        assert inbox(live, code=1) == []
        assert live.agh("inbox", "--count", code=1).stdout == "0\n"
        session.revive()
    assert len(numbers) == 2, "an old number does not dismiss what is new"


def test_a_killed_keeper_is_a_failure_and_its_repair_is_not_another(live: Live) -> None:
    session = live.new()
    session.kill_keeper()
    (entry,) = inbox(live)
    live.agh("inbox", "dismiss", "--all")
    live.agh("session", "repair", session.id)
    assert (entry["kind"], inbox(live, code=1)) == ("failure", [])


def test_a_login_is_listed_until_the_agent_takes_a_prompt(live: Live) -> None:
    session = live.new()
    session.prompt("/error -32000 log in", code=None)
    wait_until(lambda: session.status()["badge"] == "waiting-for-auth")
    (entry,) = inbox(live)
    assert (entry["kind"], entry["about"]) == ("login", "echo needs a login")
    assert entry["next"][0] == "agh agent login echo"
    assert live.agh("inbox", "--count").stdout == "1\n"
    session.tell("hello")
    wait_until(lambda: session.status()["badge"] == "idle")
    assert inbox(live, code=1) == []


def test_a_limit_is_listed_until_it_is_dismissed_or_its_prompt_is_given_up(live: Live) -> None:
    session = live.new(args=("--name", "work"))
    session.prompt("/limit 2 You've hit your usage limit; try again in 2 hours.", "--park", code=10)
    (entry,) = inbox(live)
    assert (entry["kind"], entry["name"]) == ("limited", "work")
    assert entry["about"].startswith("usage limit until 20")
    assert entry["since"] == session.meta()["limited"]["since"]
    assert live.agh("inbox", "--count").stdout == "1\n"
    session.agh("stop")
    (stopped,) = inbox(live)
    assert stopped["key"] == entry["key"]
    assert stopped["next"][0] == "agh session due --run"
    assert live.agh("inbox", "--count").stdout == "1\n"
    live.agh("inbox", "dismiss", entry["number"])
    assert inbox(live, code=1) == []
    assert live.agh("inbox", "--count", code=1).stdout == "0\n"
    session.prompt(
        "/limit 9 You've hit your usage limit; try again in 3 hours.", "--park", "--interrupt", code=10
    )
    (again,) = inbox(live)
    assert again["number"] != entry["number"]
    session.agh("cancel")
    assert inbox(live, code=1) == []


def test_the_inbox_opens_only_the_logs_of_sessions_that_wait(live: Live) -> None:
    quiet, waiting = live.new(), live.new()
    quiet.stop()
    (quiet.directory / "events.db").write_bytes(b"this is no log")
    ask(waiting, "a.txt")
    assert [entry["session_id"] for entry in inbox(live)] == [waiting.id]


def test_a_log_that_cannot_be_read_hides_no_other_session(live: Live) -> None:
    broken, waiting = live.new(), live.new()
    for session in (broken, waiting):
        session.send(form("Which?", ("colour",), colour={"type": "string"}) + STAYS)
        wait_until(lambda: (session.meta().get("activity") or {}).get("pending_questions"))  # noqa: B023
    broken.kill_keeper()
    (broken.directory / "events.db").write_bytes(b"this is no log")
    assert sorted(entry["kind"] for entry in inbox(live)) == ["damage", "question"]


def test_a_watched_inbox_sees_what_changes_and_reads_nothing_else(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = live.new(), live.new()
    ask(first, "a.txt")
    ask(second, "b.txt", "c.txt")
    watched, reads = Inbox(), []
    assert len(watched.entries()) == 3
    read = Reader.__init__
    monkeypatch.setattr(
        Reader, "__init__", lambda reader, session: (reads.append(session.id), read(reader, session))[1]
    )

    def is_read_from_memory() -> bool:
        reads.clear()
        return len(watched.entries()) == 3 and not reads

    wait_until(is_read_from_memory, what="the sessions to change no more")
    second.call("decide", request_id=requests(second)[0].request_id, verdict="deny")
    reads.clear()
    wait_until(lambda: len(watched.entries()) == 2)
    assert set(reads) == {second.id}
    first.kill_keeper()
    assert sorted(entry["kind"] for entry in watched.entries()) == ["failure", "permission"]


def test_watch_prints_what_comes_and_goes_and_takes_answers(live: Live) -> None:
    session = live.new(args=("--name", "work"))
    ask(session, "a.txt", "b.txt")
    with open_terminal(live, "inbox", "--watch") as terminal:
        terminal.shows("2  permission  work")
        terminal.type("what\n9 y\n2 y\n")
        terminal.shows("type a number and y")
        terminal.shows("the inbox has no open entry 9")
        terminal.shows("2  allowed")
        terminal.shows("2  gone")
        terminal.type("\x04")
        assert terminal.ends() == 0
    decisions = [request.decision for request in requests(session)]
    assert sorted(decisions, key=str) == [None, "allowed"]


def answer_all(terminal: Terminal, order: int) -> None:
    """Answer every entry as the terminal itself has listed it: even files may be edited, odd ones not."""
    listed = re.findall(r"^(\d+)  permission .*\r\n    edit: \S+?(\d+)\.txt\r$", terminal.printed, re.M)
    assert len(listed) == 200
    random.Random(order).shuffle(listed)
    for number, file in listed:
        terminal.type(f"{number} {'n' if int(file) % 2 else 'y'}\n")
        terminal.collect()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_three_terminals_answer_200_requests_of_20_sessions_at_once(live: Live) -> None:
    live.configure('[permissions]\ntimeout = "1h"\n')
    with ThreadPoolExecutor(4) as threads:
        sessions = list(threads.map(lambda _: live.new(), range(20)))
    for number, session in enumerate(sessions):
        ask(session, *(f"{number * 10 + file}.txt" for file in range(10)))
    entries = inbox(live)
    assert [entry["since"] for entry in entries] == sorted(entry["since"] for entry in entries)
    assert live.agh("inbox", "--count").stdout == "200\n"
    watch = ("inbox", "--watch")
    with (
        open_terminal(live, *watch) as first,
        open_terminal(live, *watch) as second,
        open_terminal(live, *watch) as third,
    ):
        terminals = (first, second, third)
        for terminal in terminals:
            terminal.shows("200  permission", limit=60)
            terminal.shows("agh inbox deny 200", limit=60)
        for order, terminal in enumerate(terminals):
            answer_all(terminal, order)

        def are_all_decided() -> bool:
            for terminal in terminals:
                terminal.collect()
            return all(request.status == "decided" for session in sessions for request in requests(session))

        wait_until(are_all_decided, 200)
    for session in sessions:
        for request in requests(session):
            is_odd = int(re.findall(r"(\d+)\.txt", str(request.resource))[0]) % 2
            expected = ("denied", "reject_once") if is_odd else ("allowed", "allow_once")
            assert (request.decision, request.option_id) == expected
            assert request.decided_by == "user"
        answers = [event.content for event in session.events("permission") if event.content.get("decision")]
        assert len(answers) == 10, "each was answered once"
    assert inbox(live, code=1) == []


def test_a_limit_is_named_as_such_and_a_long_line_says_that_it_is_cut(live: Live) -> None:
    limited = live.new()
    limited.prompt("/limit 1", "--park", code=10)
    wait_until(lambda: limited.meta().get("resumes_at"))
    live.agh("inbox")  # gives it a number
    assert (
        "entry 1 is a usage limit; you cannot allow or deny it\n"
        in live.agh("inbox", "approve", "1", code=2).stderr
    )
    session = live.new()
    command = {"command": "echo " + "x" * 5000 + " evil"}
    tool = {"toolCallId": "t", "kind": "execute", "rawInput": command}
    options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
    session.send(f"/request session/request_permission {json.dumps({'toolCall': tool, 'options': options})}")
    wait_until(lambda: (session.meta().get("activity") or {}).get("pending_permissions"))
    listed = live.agh("inbox").stdout
    assert "more characters" in listed and "evil" not in listed
    assert "evil" in live.agh("inbox", "show", "2").stdout
    session.decide("deny")
