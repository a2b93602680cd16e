"""Following and listing where inotify or descriptors are few: everything is seen, and the limit is named."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from agh.store.watch import INSTANCES, WATCHES
from agh.store.writer import Writer
from tests.support.build import Home, says, take_lock, user
from tests.support.limits import few_descriptors, inotify_limit
from tests.support.live import Live
from tests.support.program import AGH
from tests.support.wait import wait_until

COUNT = 40


@contextmanager
def held_logs(home: Home) -> Iterator[list[Writer]]:
    """Yield the logs of many sessions that are live: their locks are held until the block ends."""
    with ExitStack() as stack:
        directories = [home.session([user("hello")], state="active") for _ in range(COUNT)]
        owners = [stack.enter_context(take_lock(directory)) for directory in directories]
        yield [stack.enter_context(Writer(owner, "general")) for owner in owners]


@contextmanager
def follower(*prefix: str, descriptors: int = 1024) -> Iterator[subprocess.Popen[str]]:
    """Yield a command that follows the whole home."""
    with subprocess.Popen(
        [*prefix, AGH, "events", "--all", "--follow", "-o", "jsonl"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=few_descriptors(descriptors),  # noqa: PLW1509 - nothing else runs here
    ) as process:
        yield process
        process.kill()


def read_sessions(process: subprocess.Popen[str], count: int) -> set[str]:
    """Return the sessions of the next so many events."""
    assert process.stdout is not None
    return {json.loads(process.stdout.readline())["session_id"] for _ in range(count)}


@pytest.mark.timeout(100)
@pytest.mark.parametrize("descriptors", [100, 256])
def test_many_logs_are_followed_with_few_descriptors(home: Home, descriptors: int) -> None:
    with held_logs(home) as logs, follower(descriptors=descriptors) as process:
        ids = {log.session_id for log in logs}
        assert read_sessions(process, COUNT) == ids
        for _ in range(3):
            for log in logs:
                log.append([says("x")])
            assert read_sessions(process, COUNT) == ids
        assert len(os.listdir(f"/proc/{process.pid}/fd")) < descriptors


@pytest.mark.timeout(100)
def test_the_end_of_a_session_is_seen_with_few_descriptors(home: Home) -> None:
    with held_logs(home) as logs, follower(descriptors=100) as process:
        read_sessions(process, COUNT)
        last = logs[-1]
        last.append([says("last words")])
        last.close()
        last.lock.release()
        assert process.stdout is not None
        types = [json.loads(process.stdout.readline())["type"] for _ in range(2)]
        assert types == ["agent_message", "session_stopped"]


@pytest.mark.timeout(100)
@pytest.mark.parametrize(("what", "remark"), [("instances", INSTANCES), ("watches", WATCHES)])
def test_without_inotify_a_follower_polls_and_says_so(home: Home, what: str, remark: str) -> None:
    prefix = inotify_limit(what)
    with held_logs(home) as logs, follower(*prefix) as process:
        ids = {log.session_id for log in logs}
        assert read_sessions(process, COUNT) == ids
        for log in logs:
            log.append([says("x")])
        assert read_sessions(process, COUNT) == ids
        assert process.stderr is not None
        assert process.stderr.readline() == f"{remark}\n"


def test_without_inotify_a_prompt_works_and_says_nothing_of_it(live: Live) -> None:
    prefix = inotify_limit("instances")
    session = live.new()
    command = [*prefix, AGH, "session", "prompt", session.id, "/say works", "-o", "text"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (result.stdout.strip(), result.stderr) == ("works", "")


def test_a_list_asks_more_keepers_than_it_has_descriptors(live: Live) -> None:
    sessions = [live.new() for _ in range(12)]
    stuck = sessions[5]
    os.kill(keeper := stuck.keeper, signal.SIGSTOP)
    try:
        result = live.agh("list", "-o", "json", by_exec=True, preexec_fn=few_descriptors(14))
    finally:
        os.kill(keeper, signal.SIGCONT)
    badges = {view["id"]: view["badge"] for view in json.loads(result.stdout)["sessions"]}
    assert badges == {session.id: "idle" for session in sessions} | {stuck.id: "not-responding"}


def test_many_that_wait_without_inotify_leave_the_processor_alone(home: Home) -> None:
    """A hundred pollers must not fill a processor."""
    prefix = inotify_limit("instances")
    with held_logs(home), follower(*prefix) as process:
        read_sessions(process, COUNT)

        def used() -> int:
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            return int(fields[11]) + int(fields[12])

        def is_slow() -> bool:
            before = used()
            time.sleep(1)
            return used() - before <= 30  # hundredths of a second, for 40 sessions

        wait_until(is_slow, 20)
