"""Real orphans. Each test ends with nothing left that carries one of its cookies."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from agh.keeper.leash import orphans
from agh.keeper.leash.ahead import COOKIE_VARIABLE
from agh.keeper.leash.orphans import Launch, Orphan
from tests.support.wait import wait_until

LIMIT = 10.0


def carrying(cookie: str) -> list[int]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if f"{COOKIE_VARIABLE}={cookie}".encode() in Path(f"/proc/{name}/environ").read_bytes().split(
                b"\0"
            ):
                found.append(int(name))
        except OSError:
            pass
    return found


@pytest.fixture
def launch() -> Iterator[Launch]:
    launch = orphans.new_launch("/")
    yield launch
    left = carrying(launch.cookie)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert not left


Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a process with a cookie; killed at the end if it still runs."""
    every: list[subprocess.Popen[bytes]] = []

    def start(cookie: str | None, *argv: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "AGH_OTHER": "x"}
        if cookie is not None:
            environment[COOKIE_VARIABLE] = cookie
        every.append(subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, start_new_session=True))
        if cookie is not None:  # until the exec is done, it still shows the environment of this process
            wait_until(lambda: every[-1].pid in carrying(cookie))
        return every[-1]

    yield start
    for process in every:
        process.kill()
        process.wait(LIMIT)
        if process.stdout:
            process.stdout.close()


def python(source: str) -> tuple[str, str, str]:
    return (sys.executable, "-c", "import signal; signal.alarm(60)\n" + source)


def test_cookies_are_url_safe_and_differ() -> None:
    cookies = {orphans.new_cookie() for _ in range(100)}
    assert len(cookies) == 100
    assert all(cookie.isalnum() and cookie.isascii() for cookie in cookies)


def test_ticks_are_on_the_clock_of_start_times(start: Start) -> None:
    before = orphans.now_ticks()
    process = start(None, "sleep", "60")
    after = orphans.now_ticks()
    started = int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19])
    assert before <= started <= after


def test_finds_what_carries_the_cookie_and_nothing_else(launch: Launch, start: Start) -> None:
    process = start(launch.cookie, "sleep", "60")
    start(launch.cookie + "x", "sleep", "60")
    start("x" + launch.cookie, "sleep", "60")
    start(None, "sleep", "60")
    assert [(each.pid, each.comm) for each in orphans.find(launch)] == [(process.pid, "sleep")]
    assert orphans.end(launch) and process.wait(LIMIT) == -signal.SIGTERM


def test_the_variable_must_match_whole(launch: Launch, start: Start) -> None:
    decoy = f"X{COOKIE_VARIABLE}={launch.cookie}"
    process = start(None, "env", decoy, f"OTHER=y{COOKIE_VARIABLE}={launch.cookie}", "sleep", "60")
    wait_until(lambda: decoy.encode() in Path(f"/proc/{process.pid}/environ").read_bytes())
    assert orphans.find(launch) == []


def test_the_last_and_only_variable_is_seen(launch: Launch, start: Start) -> None:
    process = start(None, "env", "-i", f"{COOKIE_VARIABLE}={launch.cookie}", "sleep", "60")
    wait_until(lambda: carrying(launch.cookie) == [process.pid])
    assert [each.pid for each in orphans.end(launch)] == [process.pid]


def test_an_earlier_process_or_boot_or_no_cookie_never_matches(launch: Launch, start: Start) -> None:
    process = start(launch.cookie, "sleep", "60")
    empty = start("", "sleep", "60")
    for other in (
        launch._replace(ticks=orphans.now_ticks() + 1),
        launch._replace(boot_id="another"),
        launch._replace(boot_id=""),
        launch._replace(cookie=""),
    ):
        assert orphans.find(other) == []
        assert orphans.end(other) == []
    assert process.poll() is None and empty.poll() is None
    process.kill()
    process.wait(LIMIT)


def test_a_name_with_parentheses_is_read_right(launch: Launch, start: Start, tmp_path: Path) -> None:
    program = tmp_path / "a) R 1 (b"
    program.symlink_to("/bin/sleep")
    process = start(launch.cookie, str(program), "60")
    (leftover,) = orphans.find(launch)
    assert (leftover.pid, leftover.comm) == (process.pid, "a) R 1 (b")
    orphans.end(launch)


def test_ends_a_deaf_one_and_a_stopped_one_and_one_in_its_own_session(launch: Launch, start: Start) -> None:
    deaf = start(
        launch.cookie,
        *python("signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); signal.pause()"),
    )
    tree = start(launch.cookie, "sh", "-c", "setsid sleep 60 & echo; wait")
    stopped = start(launch.cookie, "sleep", "60")
    stopped.send_signal(signal.SIGSTOP)
    for process in (deaf, tree):
        assert process.stdout and process.stdout.readline() == b"\n"
    wait_until(lambda: len(carrying(launch.cookie)) == 4)
    began = time.monotonic()
    ended = orphans.end(launch, grace=0.1)
    assert time.monotonic() - began < LIMIT
    assert len(ended) == 4
    assert {deaf.pid, tree.pid, stopped.pid} < {each.pid for each in ended}
    assert carrying(launch.cookie) == []
    assert [each.wait(LIMIT) for each in (deaf, tree, stopped)] == [-9, -15, -15]
    assert orphans.end(launch) == []


def test_what_heeds_SIGTERM_has_its_time_of_grace(launch: Launch, start: Start) -> None:
    source = "signal.signal(signal.SIGTERM, lambda *_: exit(3)); print(flush=True); signal.pause()"
    process = start(launch.cookie, *python(source))
    assert process.stdout and process.stdout.readline() == b"\n"
    began = time.monotonic()
    assert len(orphans.end(launch, grace=LIMIT)) == 1
    assert time.monotonic() - began < LIMIT / 2  # it does not wait the grace out
    assert process.wait(LIMIT) == 3


def test_one_that_forks_at_SIGTERM_is_ended_with_its_child(launch: Launch, start: Start) -> None:
    source = """
import os
def again(*_):
    if os.fork():
        os._exit(0)
signal.signal(signal.SIGTERM, again)
print(flush=True)
while True: signal.pause()
"""
    process = start(launch.cookie, *python(source))
    assert process.stdout and process.stdout.readline() == b"\n"
    ended = orphans.end(launch, grace=0.1)
    assert len(ended) >= 2 and process.pid in {each.pid for each in ended}
    assert carrying(launch.cookie) == []


def test_a_chain_of_forks_is_ended(launch: Launch, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each lives for an instant and forks the next one. A busy machine needs longer to meet the last."""
    monkeypatch.setattr(orphans, "KILL_LIMIT", 15.0)
    source = """
import os, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
print(flush=True)
signal.sigwait([signal.SIGUSR1])
limit = time.monotonic() + 20
while time.monotonic() < limit:
    if os.fork():
        time.sleep(0.002)
        os._exit(0)
"""
    process = start(launch.cookie, *python(source))
    assert process.stdout and process.stdout.readline() == b"\n"
    process.send_signal(signal.SIGUSR1)
    assert process.wait(LIMIT) == 0
    assert orphans.end(launch, grace=0)
    wait_until(lambda: not carrying(launch.cookie))


CALLER = """
import subprocess, sys
from agh.keeper.leash import orphans
launch = orphans.Launch(sys.argv[1], sys.argv[2], int(sys.argv[3]))
if sys.argv[4] == "inner":
    print(*[each.pid for each in orphans.end(launch, grace=0.1)])
else:
    subprocess.run([sys.executable, *sys.orig_argv[1:-1], "inner"], check=True)
    print("the ancestor is well")
"""


def test_a_caller_inside_the_agent_spares_itself_and_its_ancestors(launch: Launch, start: Start) -> None:
    sibling = start(launch.cookie, "sleep", "60")
    fields = (launch.cookie, launch.boot_id, str(launch.ticks))
    outer = start(launch.cookie, sys.executable, "-c", CALLER, *fields, "outer")
    out, _ = outer.communicate(timeout=LIMIT)
    assert out.decode().splitlines() == [str(sibling.pid), "the ancestor is well"]
    assert outer.returncode == 0
    assert sibling.wait(LIMIT) == -signal.SIGTERM


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")
def test_another_users_process_is_left_alone(launch: Launch) -> None:
    environment = {**os.environ, COOKIE_VARIABLE: launch.cookie}
    with subprocess.Popen(["sleep", "60"], env=environment, user=65534, cwd="/") as process:
        try:
            wait_until(lambda: carrying(launch.cookie))
            assert orphans.find(launch) == []
            assert orphans.end(launch) == []
            assert process.poll() is None
        finally:
            process.kill()


def test_a_pid_that_was_reused_meanwhile_is_not_signalled(
    launch: Launch, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look said one thing; by the time the pidfd is open, another process has the pid."""
    process = start(launch.cookie, "sleep", "60")
    (leftover,) = orphans.find(launch)
    monkeypatch.setattr(
        orphans, "_search", lambda _: [leftover._replace(start_ticks=leftover.start_ticks - 1)]
    )
    assert orphans.end(launch) == []
    other = start(None, "sleep", "60")
    monkeypatch.setattr(orphans, "_search", lambda _: [Orphan(other.pid, leftover.start_ticks, "sleep")])
    assert orphans.end(launch) == []
    assert process.poll() is None and other.poll() is None
    process.kill()
    process.wait(LIMIT)


def test_too_few_descriptors_only_take_more_rounds(launch: Launch, start: Start) -> None:
    import resource

    start(launch.cookie, "sh", "-c", "for i in $(seq 30); do sleep 60 & done; wait; exec sleep 60")
    wait_until(lambda: len(carrying(launch.cookie)) == 31)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 10, hard))
    try:
        ended = orphans.end(launch)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(ended) == 31


def test_without_proc_or_pidfds_nothing_is_ended(
    launch: Launch, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = start(launch.cookie, "sleep", "60")
    with monkeypatch.context() as patch:
        patch.delattr(os, "pidfd_open")
        assert orphans.end(launch) == []
    with monkeypatch.context() as patch:
        patch.setattr(orphans, "PROC", "/no/such/place")
        assert orphans.boot_id() == ""
        assert orphans.find(launch) == []
        assert orphans.find(launch._replace(boot_id="")) == []
        assert orphans.end(launch) == []
    assert process.poll() is None
    process.kill()
    process.wait(LIMIT)


def test_no_descriptor_is_left_open(launch: Launch, start: Start) -> None:
    before = os.listdir("/proc/self/fd")
    start(launch.cookie, "sleep", "60")
    orphans.end(launch)
    assert len(os.listdir("/proc/self/fd")) == len(before) + 1  # the standard output of the one started
