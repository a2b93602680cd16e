"""Real trees of processes on a real leash. Each test ends with nothing left that carries its cookie."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import agh.keeper.leash
from tests.support.wait import wait_until

LEASH = Path(agh.keeper.leash.__file__).with_name("leash.py")
LIMIT = 10.0  # seconds, for any wait
NOT_LONGER = "import signal; signal.alarm(60)\n"  # no helper process outlives a broken test for long


def carrying(cookie: str) -> list[int]:
    """Return the living processes that have the cookie in their environment."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if cookie.encode() in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                found.append(int(name))
        except OSError:
            pass
    return found


def is_alive(pid: int) -> bool:
    """Return whether the process exists and is no zombie."""
    try:
        return not status_of(pid)["State"].startswith("Z")
    except OSError:
        return False


def status_of(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


class OnLeash:
    """The keeper's side of a leash."""

    def __init__(
        self, cookie: str, argv: list[str], *, script: Path = LEASH, new_session: bool = True
    ) -> None:
        name, _, value = cookie.partition("=")
        life, self.life = os.pipe()
        self.status, status = os.pipe()
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(script), str(life), str(status), "--", *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, name: value},
            pass_fds=(life, status),
            start_new_session=new_session,
        )
        os.close(life)
        os.close(status)
        self.facts = os.fdopen(self.status, "rb")

    def fact(self) -> dict[str, object]:
        line = self.facts.readline()
        return json.loads(line) if line else {}

    def order(self, byte: bytes) -> None:
        os.write(self.life, byte)

    def read(self) -> bytes:
        assert self.process.stdout
        return self.process.stdout.readline()

    def let_go(self) -> None:
        """Close the pipe, as the keeper's death does."""
        if self.life >= 0:
            os.close(self.life)
            self.life = -1

    def close(self) -> None:
        self.let_go()
        try:
            self.process.wait(LIMIT)
        finally:
            self.process.kill()
            self.process.wait(LIMIT)
            self.facts.close()
            for stream in (self.process.stdin, self.process.stdout):
                if stream:
                    stream.close()


@pytest.fixture
def cookie() -> Iterator[str]:
    """Fails the test that leaves a process behind, and ends it."""
    cookie = f"AGH_LEASH_TEST={os.urandom(8).hex()}"
    yield cookie
    try:
        wait_until(lambda: not carrying(cookie))
    finally:
        for pid in carrying(cookie):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def leashed(cookie: str) -> Iterator[Callable[..., OnLeash]]:
    every: list[OnLeash] = []

    def start(*argv: str, script: Path = LEASH, new_session: bool = True) -> OnLeash:
        every.append(OnLeash(cookie, list(argv), script=script, new_session=new_session))
        return every[-1]

    yield start
    for each in every:
        each.close()


Leashed = Callable[..., OnLeash]


def python(source: str) -> tuple[str, str, str]:
    return (sys.executable, "-c", NOT_LONGER + source)


# A wrapper, an agent deaf to SIGTERM and to the end of its input, a tool in a session of its own, and a
# daemon that has lost its parent. Says "ready" when all four run.
TREE = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen(["sleep", "60"], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp("sleep", ["sleep", "60"])
    os._exit(0)
os.wait()
print("ready", flush=True)
time.sleep(60)
"""


def tree() -> tuple[str, ...]:
    return ("sh", "-c", '"$@"; true', "wrapper", *python(TREE))


@pytest.mark.parametrize("code", [0, 7, 127, 255])
def test_exit_code_is_reported_and_the_leash_ends(leashed: Leashed, code: int) -> None:
    leash = leashed("sh", "-c", f"exit {code}")
    assert leash.fact().keys() == {"pid"}
    assert leash.fact() == {"exit": code, "signal": None}
    assert leash.fact() == {}
    assert leash.process.wait(LIMIT) == 0


def test_signal_is_reported(leashed: Leashed) -> None:
    leash = leashed("sleep", "60")
    pid = leash.fact()["pid"]
    assert isinstance(pid, int)
    os.kill(pid, signal.SIGSEGV)
    assert leash.fact() == {"exit": None, "signal": signal.SIGSEGV}
    assert leash.process.wait(LIMIT) == 0


def test_exec_failure_is_reported_with_its_reason(leashed: Leashed, tmp_path: Path) -> None:
    not_executable = tmp_path / "agent"
    not_executable.write_text("#!/bin/sh\n")
    for argv, number in [("/no/such/agent", errno.ENOENT), (str(not_executable), errno.EACCES)]:
        leash = leashed(argv)
        assert leash.fact() == {"error": os.strerror(number), "errno": number}
        assert leash.fact() == {}
        assert leash.process.wait(LIMIT) == 127


def test_the_program_is_looked_up_in_path_and_gets_its_arguments_as_they_are(leashed: Leashed) -> None:
    leash = leashed("printf", "%s|", "--", "a b", "é", "\udcff")
    assert leash.read() == b"--|a b|" + "é".encode() + b"|\xff|"


def test_input_and_its_end_pass_through(leashed: Leashed) -> None:
    leash = leashed("cat")
    assert leash.process.stdin
    leash.process.stdin.write(b"hello\n")
    leash.process.stdin.flush()
    assert leash.read() == b"hello\n"
    leash.process.stdin.close()
    assert leash.read() == b""
    leash.fact()
    assert leash.fact() == {"exit": 0, "signal": None}


def test_closed_stdout_of_a_living_agent_is_seen(leashed: Leashed) -> None:
    leash = leashed(*python("import os, time\nos.close(1)\ntime.sleep(60)"))
    assert leash.read() == b""
    pid = leash.fact()["pid"]
    assert isinstance(pid, int)
    os.kill(pid, 0)


def test_the_agent_inherits_no_descriptor_but_its_streams(leashed: Leashed) -> None:
    leash = leashed(*python("import os\nprint([n for n in os.listdir('/proc/self/fd') if int(n) > 2])"))
    assert leash.read() == b"['3']\n"  # listdir's own


def test_the_agent_starts_with_default_signals(leashed: Leashed) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGTERM})
    handler = signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    try:
        leash = leashed("cat", "/proc/self/status")
    finally:
        signal.signal(signal.SIGUSR2, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    masks = dict(line.split() for line in iter(leash.read, b"") if line.startswith((b"SigBlk", b"SigIgn")))
    settable = sum(1 << number - 1 for number in signal.valid_signals())  # the C library keeps 32 and 33
    assert {name: int(mask, 16) & settable for name, mask in masks.items()} == {b"SigBlk:": 0, b"SigIgn:": 0}


def test_the_leash_does_not_hear_signals_meant_for_others(leashed: Leashed) -> None:
    leash = leashed("cat")
    leash.fact()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        leash.process.send_signal(number)
    assert leash.process.stdin
    leash.process.stdin.write(b"still here\n")
    leash.process.stdin.close()
    assert leash.read() == b"still here\n"
    leash.let_go()
    assert leash.process.wait(LIMIT) == 0


@pytest.mark.parametrize("new_session", [True, False])
def test_leash_and_agent_each_lead_a_session(leashed: Leashed, new_session: bool) -> None:
    leash = leashed("cat", new_session=new_session)
    pid = leash.fact()["pid"]
    assert isinstance(pid, int)
    assert os.getsid(leash.process.pid) == leash.process.pid
    assert os.getsid(pid) == os.getpgid(pid) == pid


def test_T_reaches_everything_below(leashed: Leashed) -> None:
    """A launcher that passes no signal on, and its children in the same session and in one of their own."""
    child = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
print("ready", flush=True)
time.sleep(60)
"""
    launcher = f"""
import subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
command = [sys.executable, "-c", {child!r}]
children = [subprocess.Popen(command, start_new_session=own, stdout=subprocess.PIPE) for own in (False, True)]
for child in children:
    child.stdout.readline()
print("ready", flush=True)
print([child.wait() for child in children], flush=True)
"""
    leash = leashed(*python(launcher))
    assert leash.read() == b"ready\n"
    leash.order(b"T")
    assert leash.read() == b"[5, 5]\n"
    leash.fact()
    assert leash.fact() == {"exit": 0, "signal": None}


def test_T_reaches_a_stopped_agent(leashed: Leashed) -> None:
    leash = leashed("sleep", "60")
    pid = leash.fact()["pid"]
    assert isinstance(pid, int)
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: status_of(pid)["State"].startswith("T"))
    leash.order(b"T")
    assert leash.fact() == {"exit": None, "signal": signal.SIGTERM}


def test_K_ends_a_tree_that_is_deaf_to_SIGTERM(leashed: Leashed, cookie: str) -> None:
    leash = leashed(*tree())
    assert leash.read() == b"ready\n"
    wait_until(lambda: len(carrying(cookie)) == 5)  # the leash, too; in the middle of an exec none is seen
    leash.fact()
    leash.order(b"K")
    assert leash.fact() == {"exit": None, "signal": signal.SIGKILL}
    assert leash.fact() == {}  # the leash has gone, so all has
    assert set(carrying(cookie)) <= {leash.process.pid}


def test_when_the_agent_ends_so_does_what_it_left(leashed: Leashed, cookie: str) -> None:
    leash = leashed("sh", "-c", "setsid sleep 60 & (sleep 60 &) ; exit 3")
    leash.fact()
    assert leash.fact() == {"exit": 3, "signal": None}
    assert leash.fact() == {}
    assert set(carrying(cookie)) <= {leash.process.pid}


KEEPER = f"""
import os, subprocess, sys, time
life, hold = os.pipe()
status, facts = os.pipe()
subprocess.Popen([sys.executable, "-I", "-S", {str(LEASH)!r}, str(life), str(facts), "--", *sys.argv[1:]],
                 pass_fds=(life, facts), start_new_session=True)
time.sleep(60)
"""


def test_when_the_keeper_is_killed_the_whole_tree_goes(cookie: str) -> None:
    name, _, value = cookie.partition("=")
    with subprocess.Popen(
        [*python(KEEPER), *tree()], env={**os.environ, name: value}, stdout=subprocess.PIPE
    ) as keeper:
        assert keeper.stdout and keeper.stdout.readline() == b"ready\n"
        wait_until(lambda: len(carrying(cookie)) == 6)
        keeper.kill()
        wait_until(lambda: not carrying(cookie))


def test_when_the_leash_is_killed_the_agent_goes(leashed: Leashed) -> None:
    leash = leashed("sleep", "60")
    pid = leash.fact()["pid"]
    leash.process.kill()
    wait_until(lambda: not is_alive(int(str(pid))))


@pytest.mark.parametrize("victim", ["keeper", "leash"])
def test_at_whatever_moment_of_the_start(leashed: Leashed, cookie: str, victim: str) -> None:
    """The moment is what varies, so this one sleeps: from before Python runs until after the agent does."""
    for millisecond in range(0, 40, 2):
        leash = leashed(sys.executable, "-S", "-c", "import time; time.sleep(60)")
        time.sleep(millisecond / 1000)
        leash.let_go() if victim == "keeper" else leash.process.kill()
        wait_until(lambda: not carrying(cookie))


@pytest.mark.parametrize("session", ["", "os.setsid()"])
def test_no_fork_bomb_escapes(leashed: Leashed, cookie: str, session: str) -> None:
    """Processes that live for an instant, each forking the next: no list of pids is ever up to date."""
    bomb = f"""
import os, time
limit = time.monotonic() + 20
for _ in range(4):
    if os.fork() == 0:
        while time.monotonic() < limit:
            if os.fork():
                os._exit(0)
            {session}
        os._exit(0)
print("ready", flush=True)
time.sleep(60)
"""
    leash = leashed(*python(bomb))
    assert leash.read() == b"ready\n"
    wait_until(lambda: len(carrying(cookie)) > 2, what="one beside the leash and the agent, in its instant")
    leash.order(b"K")
    leash.fact()
    assert leash.fact() == {"exit": None, "signal": signal.SIGKILL}
    assert leash.fact() == {}
    assert set(carrying(cookie)) <= {leash.process.pid}


def test_adopted_orphans_are_reaped(leashed: Leashed) -> None:
    source = """
import os, sys
for _ in range(20):
    if os.fork() == 0:
        if os.fork() == 0:
            os.setsid()
        os._exit(0)
    os.wait()
print("ready", flush=True)
sys.stdin.read()
"""
    leash = leashed(*python(source))
    assert leash.read() == b"ready\n"
    agent = leash.fact()["pid"]

    def children() -> list[str]:
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                if status_of(int(name))["PPid"] == str(leash.process.pid):
                    found.append(name)
            except (OSError, KeyError):
                pass
        return found

    wait_until(lambda: children() == [str(agent)])


def test_without_proc_the_agents_group_is_ended(leashed: Leashed, tmp_path: Path, cookie: str) -> None:
    elsewhere = tmp_path / "leash.py"
    elsewhere.write_text(LEASH.read_text().replace('PROC = "/proc"', 'PROC = "/no/such/place"'))
    for order, number in ((b"T", signal.SIGTERM), (b"K", signal.SIGKILL)):
        leash = leashed("sh", "-c", "sleep 60 & echo ready; sleep 60; true", script=elsewhere)
        assert leash.read() == b"ready\n"
        leash.fact()
        leash.order(order)
        assert leash.fact() == {"exit": None, "signal": number}
        assert leash.fact() == {}
        assert set(carrying(cookie)) <= {leash.process.pid}


def test_a_waiting_leash_costs_little(leashed: Leashed) -> None:
    leash = leashed("cat")
    leash.fact()
    wait_until(lambda: status_of(leash.process.pid)["State"].startswith("S"))
    before = status_of(leash.process.pid)
    time.sleep(0.3)  # nothing happens, which is the point
    after = status_of(leash.process.pid)
    switches = ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")
    assert [after[key] for key in switches] == [before[key] for key in switches]
    assert int(after["VmRSS"].split()[0]) < 14_000


def test_it_imports_nothing_heavy() -> None:
    """`signal` and `ctypes` would cost as much as all the rest of the start."""
    source = f"""
import sys
exec(open({str(LEASH)!r}).read(), {{"__name__": "leash"}})
print(*sys.modules)
"""
    modules = subprocess.run(
        [sys.executable, "-I", "-S", "-c", source], capture_output=True, text=True, timeout=LIMIT, check=True
    ).stdout.split()
    assert not {"signal", "enum", "ctypes", "json", "subprocess"} & set(modules)
    assert not [name for name in modules if name.partition(".")[0] == "agh"]
