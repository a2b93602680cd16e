"""A leash that was forked ahead: it waits for its orders, follows them, and never outlives its keeper."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.wait import wait_until

# A process that forks its leash as a keeper does. Its arguments: a directory, and a descriptor to close.
KEEPER = """
import os, signal, sys
import {imports}
from agh.keeper.leash import ahead
ahead.fork_leash()
pid, stdin, stdout, stderr, life, status = ahead._process
def read(fd):
    with open(fd, "rb") as file:
        return file.read().decode()
{work}
"""


def run(work: str, directory: Path, imports: str = "os") -> str:
    read_end, write_end = os.pipe()
    try:
        command = [
            sys.executable,
            "-c",
            KEEPER.format(work=work, imports=imports),
            str(directory),
            str(write_end),
        ]
        process = subprocess.run(
            command,
            pass_fds=[write_end],
            capture_output=True,
            text=True,
            timeout=30,
            stdin=subprocess.DEVNULL,
        )
    finally:
        os.close(read_end)
        os.close(write_end)
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_it_starts_what_it_is_told_to(tmp_path: Path) -> None:
    work = """
argv = ["sh", "-c", "echo $WORD; pwd; echo wrong >&2; exit 3"]
process = ahead.use_leash(argv, {"WORD": "hello", "PATH": os.environ["PATH"]}, sys.argv[1])
assert process == (pid, stdin, stdout, stderr, life, status)
print(read(stdout), read(stderr), read(status), os.waitpid(pid, 0)[1])
assert ahead.use_leash(argv, {}, "/") == (), "there is only one"
"""
    lines = run(work, tmp_path).split()
    assert lines[:3] == ["hello", str(tmp_path), "wrong"]
    assert lines[3].startswith('{"pid":')
    assert lines[4:] == ['{"exit":3,"signal":null}', "0"]


def test_it_reports_what_cannot_be_started(tmp_path: Path) -> None:
    work = "ahead.use_leash(['no-such-program'], dict(os.environ), '/'); print(read(status))"
    assert run(work, tmp_path).strip() == '{"error":"No such file or directory","errno":2}'


def test_it_still_waits_if_there_is_no_directory_to_work_in(tmp_path: Path) -> None:
    work = """
try:
    ahead.use_leash(["pwd"], dict(os.environ), sys.argv[1] + "/gone")
except FileNotFoundError:
    ahead.use_leash(["pwd"], dict(os.environ), sys.argv[1])
    print(os.getcwd(), read(stdout))
"""
    assert run(work, tmp_path).split() == ["/", str(tmp_path)]


def test_a_directory_that_goes_meanwhile_is_reported(tmp_path: Path) -> None:
    work = """
os.kill(pid, signal.SIGSTOP)
gone = sys.argv[1] + "/gone"
os.mkdir(gone)
ahead.use_leash(["pwd"], dict(os.environ), gone)
os.rmdir(gone)
os.kill(pid, signal.SIGCONT)
print(read(status))
"""
    assert run(work, tmp_path).strip() == '{"error":"No such file or directory","errno":2}'


def test_one_that_was_killed_is_not_used(tmp_path: Path) -> None:
    work = """
os.kill(pid, signal.SIGKILL)
os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
assert ahead.use_leash(["true"], {}, "/") == ()
try:
    os.waitpid(-1, 0)
except ChildProcessError:
    print(len(os.listdir("/proc/self/fd")))
"""
    assert run(work, tmp_path).strip() == "5", "the streams, the socket and the listing: nothing is left open"


@pytest.mark.parametrize("end", ["os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_it_exits_with_its_keeper(tmp_path: Path, end: str) -> None:
    read_end, write_end = os.pipe()
    code = KEEPER.format(work=f"os.write(1, str(pid).encode()); {end}", imports="os")
    command = [sys.executable, "-c", code, str(tmp_path), str(write_end)]
    with subprocess.Popen(command, pass_fds=[write_end], stdout=subprocess.PIPE) as keeper:
        os.close(write_end)
        assert keeper.stdout
        pid = int(keeper.stdout.read())
    assert os.read(read_end, 1) == b"", "it does not keep the keeper's socket"
    os.close(read_end)
    wait_until(lambda: not Path(f"/proc/{pid}/fd/0").exists(), what="the leash is gone")


def test_ps_shows_what_it_is(tmp_path: Path) -> None:
    work = """
for _ in range(1000):
    title = open(f"/proc/{pid}/cmdline").read().rstrip("\\0").split("\\0")
    if title[0] == "leash.py":
        break
    time.sleep(0.01)
print(title == ["leash.py", sys.argv[1]])
"""
    assert run(work, tmp_path, imports="time").strip() == "True"


def test_it_carries_the_cookie_of_its_launch(tmp_path: Path) -> None:
    work = """
launch = orphans.new_launch(sys.argv[1], ahead.waiting_leash())
environ = {"LONG": "x" * 100_000, "AGH_LAUNCH": launch.cookie, "PATH": os.environ["PATH"]}
ahead.use_leash(["cat"], environ, "/")
agent = int(os.read(status, 100).split(b":")[1].strip(b"}\\n"))
print({orphan.pid for orphan in orphans.find(launch)} == {pid, agent})
"""
    assert run(work, tmp_path, imports="agh.keeper.leash.orphans as orphans").strip() == "True"


def test_without_processes_to_spare_there_is_none(tmp_path: Path) -> None:
    code = """
import os, resource, sys
from agh.keeper.leash import ahead
resource.setrlimit(resource.RLIMIT_NOFILE, (9, 9))
before = len(os.listdir("/proc/self/fd"))
ahead.fork_leash()
print(ahead.use_leash(["true"], {}, "/"), len(os.listdir("/proc/self/fd")) - before)
"""
    result = subprocess.run(
        [sys.executable, "-c", code, "/", "9"], capture_output=True, text=True, check=True
    )
    assert result.stdout == "() 0\n"


def test_it_imports_next_to_nothing() -> None:
    code = "import sys; before = set(sys.modules); import agh.keeper.leash.ahead"
    code += "; print(*set(sys.modules) - before)"
    result = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    loaded = {name for name in result.stdout.split() if not name.startswith("agh")}
    assert loaded <= {"__future__", "select"}
