"""A log that cannot be written: the keeper stops the agent and says so; it never goes on unrecorded."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
from pathlib import Path

import pytest

from agh import home as homes
from agh.store.reader import Reader
from tests.support.build import Home, Writer, child, says, take_lock
from tests.support.live import GONE_WITHIN, Live, Session
from tests.support.processes import carrying
from tests.support.wait import wait_until

# Reads orders [directory, size]: a forked writer appends to the log while no file may grow beyond the size;
# it tells the sequence that was acknowledged last, and what ended it.
FILLERS = """
import json, os, resource, sys
from pathlib import Path
from agh.errors import StoreFailed
from tests.support.build import Writer, take_lock, says

for line in sys.stdin:
    directory, size = json.loads(line)
    pid = os.fork()
    if pid == 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        told, end = 0, "nothing"
        try:
            with take_lock(Path(directory)) as owner, Writer(owner, "general") as log:
                for number in range(1, 10):
                    log.append([says(f"{number} {place} " + "x" * 300) for place in range(number % 7)])
                    told = log.last_sequence
        except StoreFailed:
            end = "full"
        print(json.dumps([told, end]), flush=True)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
"""


def fill_the_disk(session: Session, room: int = 0) -> None:
    """From now on the keeper cannot make its log longer than by so much."""
    log = session.directory / "events.db-wal"
    size = log.stat().st_size + room
    resource.prlimit(session.meta()["keeper"]["pid"], resource.RLIMIT_FSIZE, (size, size))


def test_the_disk_is_full_in_the_middle_of_a_turn(live: Live) -> None:
    session = live.new()
    with session.start_prompt(
        "/say begun\n/sleep 1\n/stream 500 0 400\n/say unrecorded", "-o", "text"
    ) as watcher:
        session.wait_for_text("begun")
        cookie = session.cookie
        fill_the_disk(session)
        out, err = watcher.communicate(timeout=30)
    assert watcher.returncode not in (0, 70), err
    assert b"unrecorded" not in out
    wait_until(lambda: not session.is_live())
    wait_until(lambda: not carrying(cookie), GONE_WITHIN)
    assert session.status()["state"] == "stopped"
    log = (session.directory / "keeper.log").read_text()
    assert "Traceback" not in log
    assert "cannot be written" in log
    before = session.events()
    assert session.say("what did I say?").startswith("SEEN 2 user texts"), "with room again it goes on"
    assert session.events()[: len(before)] == before
    session.check_log()


def test_nothing_is_recorded_behind_what_was_lost(live: Live) -> None:
    """The answer that ends a turn must not follow a gap: what waits in the pipe is not taken any more."""
    session = live.new()
    session.tell("hello")
    keeper, agent = session.keeper, session.agent
    written = written_by(agent)
    session.send("/say begun\n/sleep 0.5\n/stream 200 0 1400\n/say unrecorded")
    session.wait_for_text("begun")
    os.kill(keeper, signal.SIGSTOP)
    wait_until(lambda: written_by(agent) > written + 300_000)
    fill_the_disk(session, room=350_000)  # too little for the first read from the pipe, enough for the rest
    os.kill(keeper, signal.SIGCONT)
    wait_until(lambda: not session.is_live())
    assert "unrecorded" not in session.text()
    assert session.count("done") == 1
    session.revive()
    assert session.events("error")[0].content["stop_reason"] == "interrupted"
    session.check_log()


def written_by(pid: int) -> int:
    """Bytes that a process has written so far."""
    return int(Path(f"/proc/{pid}/io").read_text().split("wchar:")[1].split()[0])


def test_a_prompt_that_cannot_be_stored_is_not_acknowledged(live: Live) -> None:
    session = live.new()
    session.tell("hello")
    fill_the_disk(session)
    result = session.prompt("x" * 60_000, "--detach", "-o", "json", code=None)
    assert result.returncode not in (0, 70), result.stderr
    wait_until(lambda: not session.is_live())
    wait_until(lambda: not live.processes(), GONE_WITHIN)
    assert len(session.inputs()) == 1
    assert session.say("what did I say?").startswith("SEEN 2")
    session.check_log()


@pytest.mark.parametrize("part", range(2))
def test_a_writer_on_a_disk_of_any_size(home: Home, part: int) -> None:
    ends = set()
    with child(FILLERS) as fillers:
        assert fillers.stdin and fillers.stdout
        for size in range(part * 3000, 200_000, 6000):
            directory = home.session([says("before")])
            fillers.stdin.write(json.dumps([str(directory), size]) + "\n")
            fillers.stdin.flush()
            report, end = json.loads(fillers.stdout.readline())
            ends.add(end)
            numbers = sequences(directory)
            assert numbers == list(range(1, max(report, 1) + 1)), f"at {size} bytes"
            with take_lock(directory) as owner, Writer(owner, "general") as log:
                log.append([says("with room again")])
            assert sequences(directory) == [*numbers, len(numbers) + 1]
    assert ends == {"full", "nothing"}, "from too small to large enough"


def sequences(directory: Path) -> list[int]:
    with Reader(homes.Session.at(directory)) as reader:
        return [row.sequence for row in reader.rows()]


@pytest.mark.parametrize("size", [0, 4_096, 20_000, 50_000, 70_000, 90_000, 150_000])
def test_a_session_on_a_disk_of_any_size(live: Live, size: int) -> None:
    """Command, keeper and agent all meet the end of the disk: each says so, and what there is can be used."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    text = "/say begun\n/stream 300 0 300\n/say ended"
    result = live.agh("run", "--agent", "echo", text, "-o", "text", code=None, preexec_fn=limited)
    assert result.returncode not in (0, 70), (result.stdout[:200], result.stderr)
    assert "Traceback" not in result.stderr
    assert "ended" not in result.stdout
    wait_until(lambda: not live.processes())
    assert live.agh("session", "list", "--all").returncode == 0
    for session in live.sessions():
        log = session.directory / "keeper.log"
        assert not log.exists() or "Traceback" not in log.read_text(), log.read_text()
        again = session.prompt("/say with room again", "-o", "text", code=None)
        assert again.returncode in (0, 8), again.stderr
        if again.returncode == 0:
            assert again.stdout == "with room again\n"
            session.check_log()
    assert live.agh("run", "--agent", "echo", "/say anew", "-o", "text").stdout == "anew\n"


@pytest.mark.parametrize("output", ["text", "jsonl", "json", "human"])
def test_a_turn_that_cannot_be_shown_is_recorded_all_the_same(shared: Session, output: str) -> None:
    with open("/dev/full", "wb") as full:
        options = {"stdout": full, "stderr": subprocess.PIPE}
        result = shared.prompt("/stream 50 0 200\n/say ended", "-o", output, code=None, **options)
    assert result.returncode not in (0, 70)
    assert "No space left" in result.stderr
    assert "Traceback" not in result.stderr
    shared.wait_idle()
    turn = shared.events("user_message")[-1].turn_id
    assert shared.text(turn).endswith("ended")
    assert shared.tell("hello") == "echo: hello"
