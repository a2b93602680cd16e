"""`agh session events --follow`, with a writer that commits, stops and is killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.build import Home, conversation, says
from tests.support.log_writer import LogWriter
from tests.support.output import error_of, sequences
from tests.support.program import AGH, Agh, Follower
from tests.support.wait import PATIENCE


@pytest.fixture
def session(home: Home) -> Path:
    return home.session(conversation(), id="sess-live000000", state="active", stop_reason=None)


def test_a_stopped_session_gives_its_backlog_and_its_end(agh: Agh, home: Home) -> None:
    directory = home.session(conversation())
    *backlog, end = agh("session", "events", directory.name, "--follow").stdout.splitlines()
    assert backlog == agh("session", "events", directory.name).stdout.splitlines()
    assert json.loads(end) == {
        "id": f"session-stopped-{directory.name}",
        "session_id": directory.name,
        "type": "session_stopped",
        "stop_reason": "completed",
        "failure": None,
        "timestamp": "2026-04-16T01:00:00.000Z",
    }


@pytest.mark.parametrize(
    ("args", "wanted"),
    [
        (["--after", "8"], [9, 10]),
        (["--last", "2"], [9, 10]),
        (["--last", "0"], []),
        (["--type", "thought"], [2, 3]),
        (["--where", "sequence > 9"], [10]),
        (["--after", "99"], []),
    ],
)
def test_filters_hold_for_the_backlog(agh: Agh, home: Home, args: list[str], wanted: list[int]) -> None:
    directory = home.session(conversation())
    *backlog, end = agh("session", "events", directory.name, "-f", *args).stdout.splitlines()
    assert sequences("\n".join(backlog)) == wanted
    assert json.loads(end)["type"] == "session_stopped"


def test_lines_come_as_they_are_committed_until_the_writer_is_killed(session: Path) -> None:
    with LogWriter(session) as log, Follower("session", "events", session.name, "--follow") as follower:
        assert [follower.event()["sequence"] for _ in range(10)] == list(range(1, 11))
        for number in range(11, 31):
            log.append(f"message {number}")
            event = follower.event()
            assert (event["sequence"], event["content"]["text"]) == (number, f"message {number}")
        log.append("a", "b", "c")
        assert [follower.event()["content"]["text"] for _ in range(3)] == ["a", "b", "c"]
        assert all(piece.endswith(b"\n") for piece in follower.pieces)
        log.kill()
        end = follower.event()
        assert (end["id"], end["stop_reason"]) == (f"session-stopped-{session.name}", "agent_crashed")
        assert end["failure"]["kind"] == "process_exit"
        assert follower.ended() == 0
        assert follower.errors() == ""


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace to slow the disk down")
def test_a_slow_disk_delays_the_commit_and_not_the_line(session: Path) -> None:
    slow = ("strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync")
    slow = (*slow, "-e", "inject=fsync,fdatasync:delay_enter=250000")
    with LogWriter(session, slow) as log, Follower("session", "events", session.name, "-f") as follower:
        for _ in range(10):
            follower.event()
        waits = []
        for number in range(3):
            log.append(f"message {number}")
            start = time.monotonic()
            assert follower.event()["content"]["text"] == f"message {number}"
            waits.append(time.monotonic() - start)
    assert sorted(waits)[1] < 0.4


def test_a_huge_line_and_a_large_batch_come_whole(session: Path) -> None:
    args = ("session", "events", session.name, "--follow", "--after", "10")
    with LogWriter(session) as log, Follower(*args) as follower:
        log.append("x" * 3_000_000)
        assert follower.event()["content"]["text"] == "x" * 3_000_000
        log.append(*(str(n) for n in range(2500)))
        assert [follower.event()["content"]["text"] for _ in range(2500)] == [str(n) for n in range(2500)]
        log.kill()
        assert follower.event()["type"] == "session_stopped"
        assert follower.ended() == 0


def test_what_was_committed_just_before_the_kill_is_printed(session: Path) -> None:
    with (
        LogWriter(session) as log,
        Follower("session", "events", session.name, "-f", "--last", "1") as follower,
    ):
        assert follower.event()["type"] == "done"
        log.append("last words")
        log.kill()
        assert follower.event()["content"]["text"] == "last words"
        assert follower.event()["type"] == "session_stopped"
        assert follower.ended() == 0


def test_filters_hold_for_what_comes(session: Path) -> None:
    args = ("--where", "content->>'$.text' LIKE '%yes%'", "--after", "10")
    with (
        LogWriter(session) as log,
        Follower("session", "events", session.name, "--follow", *args) as follower,
    ):
        log.append("no", "yes 1")
        log.append("no", "no")
        log.append("yes 2")
        assert [follower.event()["content"]["text"] for _ in range(2)] == ["yes 1", "yes 2"]
        log.kill()
        assert follower.event()["type"] == "session_stopped"
        assert follower.ended() == 0


def test_many_sessions_in_one_stream(home: Home, session: Path) -> None:
    over = home.session([says("old")], id="sess-over000000")
    other = home.session(id="sess-other00000", state="active", stop_reason=None)
    with (
        LogWriter(session) as first,
        LogWriter(other) as second,
        Follower("session", "events", "--all", "--follow", "--last", "1") as follower,
    ):
        opening = [follower.event() for _ in range(3)]
        assert {(one["session_id"], one["type"]) for one in opening} == {
            (session.name, "done"),
            (over.name, "agent_message"),
            (over.name, "session_stopped"),
        }
        for log, directory in ((first, session), (second, other), (first, session)):
            log.append("hello")
            event = follower.event()
            assert (event["session_id"], event["content"]["text"]) == (directory.name, "hello")
        for log, directory in ((second, other), (first, session)):
            log.kill()
            assert follower.event()["id"] == f"session-stopped-{directory.name}"
        _close_output(follower)
        assert follower.process.wait(PATIENCE) == 141


def test_all_waits_for_sessions_that_start_later(agh: Agh, home: Home) -> None:
    with Follower("session", "events", "--all", "--follow") as follower:
        time.sleep(0.5)  # an empty home is not the end
        assert follower.process.poll() is None
        first = home.session([says("one")])
        events = [follower.event() for _ in range(2)]
        assert [(event["session_id"], event["type"]) for event in events] == [
            (first.name, "agent_message"),
            (first.name, "session_stopped"),
        ]
        with LogWriter(first) as log:  # it starts again
            log.append("two")
            event = follower.event()
            assert (event["sequence"], event["content"]["text"]) == (2, "two")
            log.kill()
        assert follower.event()["type"] == "session_stopped"
        second = home.session([says("three")])
        assert follower.event()["session_id"] == second.name
        follower.process.send_signal(signal.SIGINT)
        assert follower.process.wait(PATIENCE) == 130


def test_all_opens_only_the_logs_that_may_grow(home: Home, session: Path) -> None:
    for number in range(80):
        home.session([says("old")], id=f"sess-over{number:06d}")
    few = f"ulimit -n 40; exec {AGH} session events --all --follow --type agent_message"
    with (
        LogWriter(session) as log,
        subprocess.Popen(["sh", "-c", few], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as follower,
    ):
        assert follower.stdout is not None and follower.stderr is not None
        try:
            ended = 0
            while ended < 80:
                ended += json.loads(follower.stdout.readline())["type"] == "session_stopped"
            log.append("hello")
            while json.loads(follower.stdout.readline())["content"]["text"] != "hello":
                pass
            assert not any("sess-over" in link for link in _open_files(follower.pid))
        finally:
            follower.kill()


def test_all_names_a_damaged_session_and_follows_the_others(home: Home, session: Path) -> None:
    broken = home.session([says("lost")], id="sess-broken0000")
    (broken / "events.db").write_text("not a database")
    with LogWriter(session) as log, Follower("session", "events", "--all", "-f", "--last", "1") as follower:
        assert follower.event()["type"] == "done"
        log.append("hello")
        assert follower.event()["content"]["text"] == "hello"
        follower.process.send_signal(signal.SIGINT)
        assert follower.process.wait(PATIENCE) == 130
        assert broken.name in follower.errors()


def _open_files(pid: int) -> list[str]:
    names = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):
            names.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return names


def _close_output(follower: Follower) -> None:
    """Close our end of the pipe that the program writes to."""
    assert follower.process.stdout is not None
    follower.process.stdout.close()
    follower.process.stdout = None


@pytest.mark.parametrize("output", ["jsonl", "human", "sse"])
def test_a_reader_that_goes_away_ends_it_while_nothing_happens(session: Path, output: str) -> None:
    args = ("session", "events", session.name, "--follow", "-o", output)
    with LogWriter(session), Follower(*args) as follower:
        follower.line()
        _close_output(follower)
        assert follower.process.wait(PATIENCE) == 141
        assert follower.errors() == ""


def test_sse(session: Path) -> None:
    args = ("session", "events", session.name, "--follow", "-o", "sse", "--last-event-id", "10")
    with LogWriter(session) as log, Follower(*args) as follower:
        log.append("hello")
        assert follower.line() == "id: 11"
        assert follower.line() == "event: agent_message"
        data = follower.line()
        assert json.loads(data.removeprefix("data: "))["content"]["text"] == "hello"
        assert follower.line() == ""
        log.kill()
        assert follower.line() == "event: session_stopped"
        assert json.loads(follower.line().removeprefix("data: "))["type"] == "session_stopped"
        assert follower.line() == ""
        assert follower.ended() == 0


def test_for_people(session: Path) -> None:
    args = ("session", "events", session.name, "--follow", "-o", "human", "--after", "10")
    with LogWriter(session) as log, Follower(*args) as follower:
        log.append("hello")
        assert follower.line().endswith("hello")
        log.kill()
        assert follower.line().startswith(f"-- {session.name} stopped: agent_crashed")
        assert follower.ended() == 0


@pytest.mark.skipif(shutil.which("jq") is None, reason="needs jq")
def test_jq_gets_whole_lines(session: Path) -> None:
    follow = [AGH, "session", "events", session.name, "--follow"]
    with (
        LogWriter(session) as log,
        subprocess.Popen(follow, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as agh,
        subprocess.Popen(
            ["jq", "--unbuffered", "-c", ".sequence"], stdin=agh.stdout, stdout=subprocess.PIPE
        ) as jq,
    ):
        assert agh.stdout is not None and jq.stdout is not None
        agh.stdout.close()
        try:
            assert [int(jq.stdout.readline()) for _ in range(10)] == list(range(1, 11))
            log.append("x" * 200_000)
            assert jq.stdout.readline() == b"11\n"
            log.kill()
            assert jq.stdout.read() == b"null\n"
            assert (agh.wait(PATIENCE), jq.wait(PATIENCE)) == (0, 0)
        finally:
            agh.kill()
            jq.kill()


def test_control_c_is_quiet(session: Path) -> None:
    with LogWriter(session), Follower("session", "events", session.name, "--follow") as follower:
        for _ in range(10):
            follower.event()
        follower.process.send_signal(signal.SIGINT)
        assert follower.ended() == 130
        assert follower.errors() == ""


def test_a_reader_that_goes_away_ends_it_at_the_next_line(session: Path) -> None:
    with LogWriter(session) as log, Follower("session", "events", session.name, "--follow") as follower:
        follower.event()
        assert follower.process.stdout is not None
        follower.process.stdout.close()
        log.append("nobody reads this")
        assert follower.process.wait(PATIENCE) == 141
        assert follower.errors() == ""
        follower.process.stdout = None


def test_damage_is_an_error_and_no_end_of_a_session(agh: Agh, home: Home) -> None:
    directory = home.directory()
    finished = agh("session", "events", directory.name, "--follow", "-o", "jsonl", code=None)
    error_of(finished, "events_missing", 8)


def test_nobody_waits_for_a_clean_end(session: Path) -> None:
    with (
        LogWriter(session) as log,
        Follower("session", "events", session.name, "-f", "--last", "1") as follower,
    ):
        assert follower.event()["type"] == "done"
        assert log.process.stdin is not None
        log.process.stdin.close()
        assert log.process.wait(PATIENCE) == 0
        assert follower.event()["type"] == "session_stopped"
        assert follower.ended() == 0
