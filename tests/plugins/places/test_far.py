"""The far side on its own: the real script in every userland, with pipes for a wire."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from agh_places import far

from agh.adapters.agents import AgentRecord
from agh.adapters.launch import Launch
from agh.errors import AghError
from tests.support.processes import Process, is_alive, kill, look_at, processes
from tests.support.userland import Userland
from tests.support.wait import wait_until

NOTICED_WITHIN = 5.0  # seconds; it takes a tenth of one, a heartbeat would take ten


class Far:
    """A far side that runs."""

    def __init__(
        self,
        launch: Launch,
        userland: Userland,
        env: tuple[str, ...] = (),
        pause: float = 15,
        guard: bool = False,
    ) -> None:
        self.launch = launch
        script = far.build_preamble(launch, env, pause=pause, guard=guard)
        self.process = subprocess.Popen(
            [userland.shell, *far.build_shell_argv(script)[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=userland.environ,
            start_new_session=True,
        )
        assert self.process.stdin is not None
        self.process.stdin.write(script)
        self.process.stdin.flush()

    def say(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().decode().strip()

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Send agh's heartbeat down the wire inside the block."""
        enough = threading.Event()

        def beat() -> None:
            while not enough.wait(0.05):
                self.say(b" ")

        heart = threading.Thread(target=beat)
        heart.start()
        try:
            yield
        finally:
            enough.set()
            heart.join(10)

    def end(self) -> None:
        """End everything the test started."""
        assert self.process.stdin and self.process.stdout and self.process.stderr
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(10)
        for process in self.marked():
            with suppress(ProcessLookupError):
                kill(process.pid)
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()
        self.process.stderr.close()

    def marked(self) -> list[Process]:
        """Return what still runs of this launch."""
        run = f"{self.launch.session_id or 'none'}:{self.launch.environ['AGH_LAUNCH']}"
        return [process for process in processes() if process.environ.get(far.MARK) == run]

    def finish(self) -> tuple[str, str, int]:
        out, err = self.process.communicate(timeout=20)
        return out.decode(), err.decode(), self.process.returncode

    def why(self, code: int, stderr: str) -> AghError:
        return far.explain_end("there", self.launch, {"exit": code, "signal": None}, stderr)


def launch_of(tmp_path: Path, *argv: str, run: str = "1", session: str = "", package: str = "") -> Launch:
    session = session or f"sess-{tmp_path.name[-20:]}{os.getpid()}"
    environ = {"AGH_LAUNCH": run, "AGH_SESSION_ID": session}
    record, folder = AgentRecord("bot", argv, package=package), str(tmp_path)
    return Launch(record, [*argv], environ, folder, session_id=session, cwd=folder)


Begin = Callable[..., Far]


@pytest.fixture
def begin(userland: Userland) -> Iterator[Begin]:
    """Start far sides in each userland, and end them with the test."""
    far_sides: list[Far] = []

    def begin(launch: Launch, *args: Any, **options: Any) -> Far:
        far_sides.append(Far(launch, userland, *args, **options))
        return far_sides[-1]

    yield begin
    for far_side in far_sides:
        far_side.end()


def test_it_hands_on_every_byte_and_the_exit_code(tmp_path: Path, begin: Begin) -> None:
    code = "import sys; d = sys.stdin.buffer.read(); sys.stdout.buffer.write(d); sys.exit(len(d) % 251)"
    data = os.urandom(1 << 20) + b"\nexport X='\0'\n"
    far_side = begin(launch_of(tmp_path, sys.executable, "-c", code))
    out, err = far_side.process.communicate(data, timeout=20)
    assert out == data
    assert far_side.process.returncode == len(data) % 251
    assert f"agh-place: ended {len(data) % 251}" in err.decode()


def test_the_environment_comes_by_the_wire(tmp_path: Path, begin: Begin) -> None:
    value = 'it\'s "a" $HOME `id` \\ \n two lines é'
    launch = launch_of(tmp_path, sys.executable, "-c", "import os; print(repr(os.environ['V']), os.getcwd())")
    out, _, code = begin(launch, (f"V={value}",)).finish()
    assert (out.strip(), code) == (f"{value!r} {os.path.realpath(tmp_path)}", 0)


@pytest.mark.parametrize("ears", ["open", "deaf"])
def test_the_end_of_stdin_ends_everything(tmp_path: Path, begin: Begin, ears: str) -> None:
    code = f"""
import signal, subprocess, sys, time
if {ears == "deaf"}:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "300"], start_new_session=True)
print(child.pid, flush=True)
time.sleep(300)
"""
    far_side = begin(launch_of(tmp_path, sys.executable, "-c", code))
    escaped = int(far_side.line())
    began = time.monotonic()
    far_side.finish()
    assert time.monotonic() - began < 20
    wait_until(lambda: not is_alive(escaped))


def test_what_an_agent_leaves_behind_ends_with_it(tmp_path: Path, begin: Begin) -> None:
    leave = "s.Popen(['sleep', '300'], start_new_session=True, stdout=s.DEVNULL, stderr=s.DEVNULL)"
    code = f"import subprocess as s; print({leave}.pid)"
    far_side = begin(launch_of(tmp_path, sys.executable, "-c", code))
    escaped = int(far_side.line())
    assert far_side.process.wait(20) == 0, "and it does not wait for its stdin to end"
    assert not is_alive(escaped)
    far_side.finish()


def test_an_earlier_run_of_the_session_is_ended_and_no_other(tmp_path: Path, begin: Begin) -> None:
    endless = (sys.executable, "-c", "import sys; print('up', flush=True); sys.stdin.read()")
    earlier = begin(launch_of(tmp_path, *endless, run="1"))
    other = begin(launch_of(tmp_path, *endless, run="1", session=f"sess-other{os.getpid()}"))
    assert (earlier.line(), other.line()) == ("up", "up")
    later = begin(launch_of(tmp_path, *endless, run="2"))
    assert later.line() == "up"
    _, stderr, code = earlier.finish()
    assert code == 137
    assert "agh-place: ended 137" in stderr
    assert later.process.poll() is None, "the end of the earlier one harms nobody"
    assert other.process.poll() is None
    later.finish()
    other.finish()


def test_an_earlier_run_is_dead_before_the_agent_starts(tmp_path: Path, begin: Begin) -> None:
    """Many processes, deaf to SIGTERM; one that the kernel is taking down has no environment any more."""
    code = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
leader = os.getpid()
for _ in range(40):
    os.getpid() == leader and os.fork()
os.getpid() == leader and print(leader, flush=True)
time.sleep(300)
"""
    earlier = begin(launch_of(tmp_path, sys.executable, "-c", code, run="1"))
    agent = int(earlier.line())
    assert len(earlier.marked()) > 40 and is_alive(agent)
    look = 'cat /proc/[0-9]*/environ 2>/dev/null | tr "\\0" "\\n" | grep -c "^$0:1$"'
    mark = f"{far.MARK}={earlier.launch.session_id}"
    later = begin(launch_of(tmp_path, "sh", "-c", look, mark, run="2"))
    assert later.line() == "0"
    earlier.finish()
    later.finish()


def test_probes_of_no_session_leave_each_other_alone(tmp_path: Path, begin: Begin) -> None:
    endless = (sys.executable, "-c", "import sys; print('up', flush=True); sys.stdin.read()")
    probes = []
    for run in ("first", "second"):
        launch = launch_of(tmp_path, *endless, run=f"{run}{os.getpid()}")
        launch.session_id = ""
        probes.append(begin(launch))
        assert probes[-1].line() == "up"
    assert [probe.finish()[2] for probe in probes] == [0, 0]


def test_nobody_can_point_the_sweep_at_another_process(tmp_path: Path, begin: Begin) -> None:
    """The value of a variable looks like the heading of another process, and then like a mark."""
    launch = launch_of(tmp_path, "true")
    with subprocess.Popen(["sleep", "300"]) as bystander:
        text = f"\n==> /proc/{bystander.pid}/environ <==\n{far.MARK}={launch.session_id}:1"
        with subprocess.Popen(["sleep", "300"], env={**os.environ, "VALUE": text}) as liar:
            try:
                wait_until(lambda: (process := look_at(liar.pid)) and "VALUE" in process.environ)
                assert begin(launch).finish()[2] == 0
                assert (bystander.poll(), liar.poll()) == (None, None)
            finally:
                liar.kill()
                bystander.kill()


@pytest.fixture
def few_tools(tmp_path: Path, userland: Userland) -> str:
    """Return a PATH without the tools that read marks. A busybox that prefers its applets has them anyway."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("dd", "env", "sleep"):
        (tools / name).symlink_to(str(shutil.which(name)))
    return str(tools)


def test_where_marks_cannot_be_read_the_process_group_ends(
    tmp_path: Path, begin: Begin, few_tools: str
) -> None:
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(300)"
    far_side = begin(launch_of(tmp_path, sys.executable, "-c", code), (f"PATH={few_tools}",))
    agent = int(far_side.line())
    far_side.finish()
    wait_until(lambda: not is_alive(agent))


def test_an_exit_is_noticed_where_marks_cannot_be_read(tmp_path: Path, begin: Begin, few_tools: str) -> None:
    """The wire stays open and silent: nothing but the exit itself can end the far side."""
    launch = launch_of(tmp_path, sys.executable, "-c", "print('bye', flush=True); raise SystemExit(3)")
    far_side = begin(launch, (f"PATH={few_tools}",))
    assert far_side.line() == "bye"
    far_side.process.wait(NOTICED_WITHIN)
    assert far_side.process.stderr is not None
    assert "agh-place: ended 3" in far_side.process.stderr.read().decode()


def test_an_exit_is_noticed_at_once(tmp_path: Path, begin: Begin) -> None:
    """An agent that leaves children, and a wire that stays open and silent."""
    leave = "subprocess.Popen(['sleep', '300'], start_new_session=True)"
    code = f"import subprocess; {leave}; print('bye', flush=True); raise SystemExit(3)"
    far_side = begin(launch_of(tmp_path, sys.executable, "-c", code))
    assert far_side.line() == "bye"
    assert far_side.process.wait(NOTICED_WITHIN) == 3
    assert far_side.marked() == []


def test_a_process_that_two_looks_miss_is_ended(tmp_path: Path, begin: Begin, userland: Userland) -> None:
    """One in the middle of an exec shows no environment, so a look does not see it."""
    blind = tmp_path / "blind"
    blind.mkdir()
    script = f"""#!/bin/sh
PATH={shlex.quote(userland.path)}
for miss in {shlex.quote(str(blind))}/miss.*; do rm "$miss" 2>/dev/null && exit; done
exec head "$@"
"""
    (blind / "head").write_text(script)
    (blind / "head").chmod(0o755)
    leave = "subprocess.Popen(['sleep', '300'], start_new_session=True)"
    miss = f"[open('{blind}/miss.%d' % number, 'w').close() for number in (1, 2)]"
    code = f"import subprocess; {leave}; {miss}; print('bye', flush=True); raise SystemExit(3)"
    far_side = begin(launch_of(tmp_path, sys.executable, "-c", code), (f"PATH={blind}:{userland.path}",))
    assert far_side.line() == "bye"
    assert far_side.process.wait(NOTICED_WITHIN) == 3
    assert far_side.marked() == []


def test_why_it_did_not_start(tmp_path: Path, begin: Begin) -> None:
    missing = begin(launch_of(tmp_path, "no-such-program"))
    _, stderr, code = missing.finish()
    error = missing.why(code, stderr)
    assert (error.code, error.exit) == ("agent_not_installed", 9)
    launch = launch_of(tmp_path, "true")
    launch.cwd = str(tmp_path / "nowhere")
    lost = begin(launch)
    _, stderr, code = lost.finish()
    error = lost.why(code, stderr)
    assert (error.code, error.exit) == ("workspace_gone", 4)
    assert "nowhere in there" in error.message


def test_last_words_without_a_newline_do_not_hide_the_goodbye(tmp_path: Path, begin: Begin) -> None:
    far_side = begin(launch_of(tmp_path, "sh", "-c", "printf 'oh no' >&2; exit 3"))
    _, stderr, code = far_side.finish()
    error = far_side.why(code, stderr)
    assert (error.code, code) == ("agent_died", 3)
    assert error.message == "agent bot exited with code 3 in there; its last output: oh no"


def test_a_package_stands_in_for_a_program_that_is_missing(tmp_path: Path, begin: Begin) -> None:
    (tmp_path / "bin").mkdir()
    npx = tmp_path / "bin" / "npx"
    npx.write_text('#!/bin/sh\necho "$@"\n')
    npx.chmod(0o755)
    launch = launch_of(tmp_path, "no-such-program", "--acp", package="@bot/acp")
    out, _, _ = begin(launch, (f"PATH={tmp_path}/bin:{os.environ['PATH']}",)).finish()
    assert out == f"--prefix {os.environ.get('HOME') or '/'} -y @bot/acp --acp\n"


def test_who_said_goodbye(tmp_path: Path) -> None:
    launch = launch_of(tmp_path, "bot")
    launch.argv = ["/usr/bin/ssh", "there"]

    def why(exit: int | None, signal: int | None, stderr: str) -> tuple[str, str]:
        error = far.explain_end("there", launch, {"exit": exit, "signal": signal}, stderr)
        return error.code, error.message

    assert why(255, None, "ssh: connect to host x: refused\n") == (
        "place_gone",
        "no connection to there: ssh: connect to host x: refused (ssh exited with 255)",
    )
    assert why(137, None, "") == ("place_gone", "no connection to there: ssh exited with 137")
    assert why(None, 9, "noise")[1].endswith("noise (ssh was killed by signal 9)")
    code, message = why(1, None, "Traceback: oh no\nagh-place: ended 1\nsrun: error: task 0\n")
    assert code == "agent_died"
    assert "exited with code 1 in there" in message


def test_a_far_side_that_is_killed_itself_still_ends_its_agent(tmp_path: Path, begin: Begin) -> None:
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(300)"
    far_side = begin(launch_of(tmp_path, sys.executable, "-c", code))
    agent = int(far_side.line())
    kill(far_side.process.pid)
    far_side.finish()
    wait_until(lambda: not is_alive(agent))


def test_a_guard_ends_what_is_left_when_the_script_is_killed(tmp_path: Path, begin: Begin) -> None:
    """As the leash does it behind `podman exec`: all below at once, but for what has left the tree."""
    leave = "subprocess.Popen(['sleep', '300'], start_new_session=True, stdout=subprocess.DEVNULL)"
    fork = f"os.fork() or (print({leave}.pid, flush=True), os._exit(0))"
    code = f"import os, subprocess, time; {fork}; time.sleep(300)"
    far_side = begin(launch_of(tmp_path, sys.executable, "-c", code), guard=True)
    escaped = int(far_side.line())
    os.killpg(far_side.process.pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(escaped))
    wait_until(lambda: not far_side.marked())


def test_a_guard_ends_with_its_script(tmp_path: Path, begin: Begin) -> None:
    far_side = begin(launch_of(tmp_path, "sh", "-c", "cat; exit 3"), guard=True)

    def guards() -> list[Process]:
        run = f"{far_side.launch.session_id}:1"
        return [process for process in processes() if process.argv[-1:] == [f"{far.MARK}={run}"]]

    wait_until(lambda: len(guards()) == 1)
    out, stderr = far_side.process.communicate(b"every byte", timeout=20)
    assert (out, far_side.process.returncode) == (b"every byte", 3)
    assert b"agh-place: ended 3" in stderr
    wait_until(lambda: not guards())


def test_a_wire_that_goes_silent_counts_as_cut(tmp_path: Path, begin: Begin) -> None:
    """Nothing is closed; the spaces just do not come any more."""
    agent = (sys.executable, "-c", "import sys; print('up', flush=True); sys.stdin.read()")
    far_side = begin(launch_of(tmp_path, *agent), pause=0.3)
    with far_side.beating():
        assert far_side.line() == "up"
        time.sleep(1.8)
        assert far_side.process.poll() is None, "as long as they come it stays"
    assert far_side.process.wait(10) == 0, "the agent's stdin has ended"


def test_an_agent_that_is_slow_to_read_is_not_a_silent_wire(tmp_path: Path, begin: Begin) -> None:
    """It has been sent more than the pipes hold, so no space can arrive."""
    begins = tmp_path / "begins to read"
    code = f"""
import os, sys, time
print("up", flush=True)
while not os.path.exists({str(begins)!r}):
    time.sleep(0.02)
print(sys.stdin.read().count("x"))
"""
    far_side = begin(launch_of(tmp_path, sys.executable, "-c", code), pause=0.3)
    with far_side.beating():
        assert far_side.line() == "up"
        time.sleep(0.6)
    sending = threading.Thread(target=far_side.say, args=[b"x" * 500_000])
    sending.start()
    time.sleep(1.8)
    assert sending.is_alive(), "the wire is full"
    begins.touch()
    sending.join(10)
    assert far_side.finish()[0] == "500000\n"
