"""`stop --all` and `resume --all`: every session that is meant, no other, whatever fails for one of them."""

from __future__ import annotations

import json
import os
import signal

from tests.support.build import Home, conversation
from tests.support.live import Live
from tests.support.wait import wait_until


def lines(text: str) -> set[str]:
    return set(text.splitlines())


def test_all_live_sessions_are_stopped_and_no_other_is_touched(live: Live) -> None:
    running = [live.new() for _ in range(2)]
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
        assert "--all can be combined only" in live.agh("session", *args, code=2).stderr
    assert "agh session resume --all" in live.agh("resume", "x", "--state", "stopped", code=2).stderr
    assert "name a session, or use --all" in live.agh("stop", "x", "--all", code=2).stderr
    assert "stop needs a session" in live.agh("stop", code=2).stderr


def test_only_what_was_live_here_lately_is_resumed(live: Live, home: Home) -> None:
    """Not what was imported, and not what lost its keeper weeks ago: there may be thousands of those."""
    lost = live.new(args=("--name", "lost"))
    lost.kill_keeper()
    exported = live.workspace / "exported.jsonl"
    exported.write_text(lost.agh("export", "--format", "jsonl").stdout)
    imported = live.agh("session", "import", exported, "--new-id", "-o", "json").stdout
    old = home.session(conversation(), stop_reason="shutdown", updated_at="2025-01-01T00:00:00.000Z")
    (old / "keeper.log").touch()
    result = live.agh("session", "resume", "--all")
    assert result.stdout == f"{lost.id}  idle  lost\n", imported
    assert lost.is_live()


def test_one_failure_of_the_system_does_not_end_the_others(live: Live) -> None:
    sessions = [live.new() for _ in range(3)]
    for session in sessions:
        session.kill_keeper()
    blocked = sessions[1].directory / "keeper.log"
    blocked.unlink()
    blocked.symlink_to("/dev/full/nothing")
    result = live.agh("session", "resume", "--all", "-o", "json", code=None)
    records = {record["id"]: record for record in json.loads(result.stdout)["sessions"]}
    assert {session.id for session in sessions} - {sessions[1].id} <= {
        session_id for session_id, record in records.items() if record.get("state") == "active"
    }
    assert not sessions[1].is_live()


def test_a_slow_one_does_not_hold_up_the_lines_of_the_others(live: Live) -> None:
    slow, *others = [live.new() for _ in range(3)]
    keeper = slow.keeper
    slow.call("update", title="newest")
    os.kill(keeper, signal.SIGSTOP)
    try:
        process = live.start("stop", "--all")
        assert process.stdout is not None
        stopped = {process.stdout.readline().split()[0].decode() for _ in others}
        assert stopped == {session.id for session in others}
        assert process.poll() is None, "it still waits for the slow one"
        process.send_signal(signal.SIGINT)
        assert process.wait(5) == 130, "Ctrl-C does not wait for it"
    finally:
        os.kill(keeper, signal.SIGCONT)


def test_both_are_safe_to_run_side_by_side(live: Live) -> None:
    sessions = [live.new() for _ in range(2)]
    for session in sessions:
        session.kill_keeper()
    commands = [live.start("resume", "--all") for _ in range(3)]
    assert [command.wait(60) for command in commands] == [0] * 3
    agents = [session.agent for session in sessions]
    assert len(set(agents)) == 2
    assert all(session.count("session_resumed") == 1 for session in sessions)
    commands = [live.start("stop", "--all") for _ in range(3)]
    assert [command.wait(60) for command in commands] == [0] * 3
    assert not any(session.is_live() for session in sessions)
