"""One owner at a time, whatever dies; asking never takes."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import pytest

from agh.errors import HomeUnsafe
from agh.home import Session
from agh.store import lock
from agh.store.reader import Reader
from tests.support.build import Home, child, take_lock, user
from tests.support.wait import wait_until

pytestmark = pytest.mark.timeout(60)

HOLDER = """
import sys
from agh.home import Session
from agh.store import lock
owner = lock.take(Session.at(sys.argv[1]))
print("held" if owner else "refused", flush=True)
sys.stdin.read()
"""
# Takes each directory it is told, says whether it won, and holds it until it is told the next.
RACER = """
import sys
from agh.home import Session
from agh.store import lock
print("ready", flush=True)
for line in sys.stdin:
    owner = lock.take(Session.at(line.rstrip()))
    print(int(owner is not None), flush=True)
"""
PROBER = """
import sys, threading
from agh.home import Session
from agh.store import lock
done = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), done.set())).start()
print("ready", flush=True)
asked = 0
while not done.is_set():
    lock.is_held(Session.at(sys.argv[1]))
    asked += 1
print(asked, flush=True)
"""
GIVER = """
import subprocess, sys
from agh.home import Session
from agh.store import lock
owner = lock.take(Session.at(sys.argv[1]))
subprocess.Popen([sys.executable, "-c", sys.argv[2], sys.argv[1], str(owner.fd)], pass_fds=[owner.fd])
"""
HEIR = """
import sys
from agh.home import Session
from agh.store.lock import Lock
from tests.support.wait import wait_until
from tests.support.build import Writer, user
print("here", flush=True)
sys.stdin.readline()
with Writer(Lock(int(sys.argv[2]), Session.at(sys.argv[1])), "general") as log:
    log.append([user("from the heir")])
print("written", flush=True)
sys.stdin.read()
"""


def _line(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline().rstrip("\n")


def _tell(stream: IO[str] | None, text: str) -> None:
    assert stream is not None
    stream.write(text)
    stream.flush()


def test_taken_held_released(tmp_path: Path) -> None:
    here = Session.at(tmp_path)
    assert not lock.is_held(here)
    assert not (tmp_path / "lock").exists(), "asking creates nothing"
    owner = lock.take(here)
    assert owner is not None
    assert lock.is_held(here)
    assert lock.take(here) is None, "not even its owner can take it twice"
    assert stat.S_IMODE((tmp_path / "lock").stat().st_mode) == 0o600
    owner.release()
    owner.release()
    assert not lock.is_held(here)
    assert (tmp_path / "lock").exists(), "the file stays"
    with take_lock(tmp_path):
        assert lock.is_held(here)
    assert not lock.is_held(here)


def test_asking_leaves_no_descriptor(tmp_path: Path) -> None:
    with take_lock(tmp_path):
        before = os.listdir("/proc/self/fd")
        for _ in range(50):
            assert lock.is_held(Session.at(tmp_path))
            assert lock.take(Session.at(tmp_path)) is None
        assert os.listdir("/proc/self/fd") == before


def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HomeUnsafe, match="symbolic link"):
        lock.take(Session.at(tmp_path))
    assert not (tmp_path / "elsewhere").exists()


def test_of_sixteen_racers_one_wins(tmp_path: Path) -> None:
    with ExitStack() as stack:
        racers = [stack.enter_context(child(RACER)) for _ in range(16)]
        assert {_line(racer.stdout) for racer in racers} == {"ready"}
        for number in range(12):
            directory = tmp_path / str(number)
            directory.mkdir()
            for racer in racers:
                _tell(racer.stdin, f"{directory}\n")
            won = [_line(racer.stdout) for racer in racers]
            assert sorted(won) == ["0"] * 15 + ["1"], won
            assert lock.is_held(Session.at(directory))


def test_asking_never_takes(tmp_path: Path) -> None:
    with ExitStack() as stack:
        probers = [stack.enter_context(child(PROBER, tmp_path)) for _ in range(2)]
        assert {_line(prober.stdout) for prober in probers} == {"ready"}
        for _ in range(3000):
            owner = lock.take(Session.at(tmp_path))
            assert owner is not None, "an honest taker failed because of a probe"
            owner.release()
        for prober in probers:
            assert prober.stdin is not None
            prober.stdin.close()
            assert int(_line(prober.stdout)) > 0, "the probe did not run"


def test_the_kernel_frees_the_lock_of_the_dead(tmp_path: Path) -> None:
    with child(HOLDER, tmp_path) as holder:
        assert _line(holder.stdout) == "held"
        assert lock.is_held(Session.at(tmp_path))
        assert lock.take(Session.at(tmp_path)) is None
        holder.send_signal(signal.SIGKILL)
        holder.wait(10)
        assert not lock.is_held(Session.at(tmp_path))
        take_lock(tmp_path).release()


def test_a_program_does_not_inherit_the_lock(tmp_path: Path) -> None:
    owner = take_lock(tmp_path)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, close_fds=False) as program:
        owner.release()
        assert program.poll() is None
        assert not lock.is_held(Session.at(tmp_path))


def test_a_lock_that_was_handed_over_outlives_its_giver(home: Home) -> None:
    directory = home.session([user("before")])
    with child(GIVER, directory, HEIR) as giver:
        assert _line(giver.stdout) == "here"
        assert giver.wait(10) == 0
        assert lock.is_held(Session.at(directory))
        assert lock.take(Session.at(directory)) is None
        _tell(giver.stdin, "write\n")
        assert _line(giver.stdout) == "written"
        assert lock.is_held(Session.at(directory))
        assert giver.stdin is not None and giver.stdout is not None
        giver.stdin.close()
        assert giver.stdout.read() == "", "the heir has ended"
        with Reader(Session.at(directory)) as reader:
            assert reader.last_sequence() == 2
    # The heir closes stdout a moment before the kernel closes the rest of its files.
    owner = wait_until(lambda: lock.take(Session.at(directory)), what="the lock is free")
    owner.release()


def test_without_ofd_locks_flock_stands_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "_OFD", False)
    monkeypatch.setattr(lock, "_FLOCK_RETRY", 0.01)
    assert not lock.is_held(Session.at(tmp_path))
    with take_lock(tmp_path):
        assert lock.is_held(Session.at(tmp_path))
        assert lock.take(Session.at(tmp_path)) is None
    assert not lock.is_held(Session.at(tmp_path))
    with take_lock(tmp_path):
        assert lock.is_held(Session.at(tmp_path))
