"""`agh session new` and `fork`, killed before each of their acts: a session is there whole, or not at all."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from agh.home import new_session_id
from agh.store.create import create_session
from tests.support.build import child
from tests.support.live import Live, Session

# Reads orders [n, argv]: a forked process runs the command and is killed before its n-th act, which is any in
# the home that Python tells of, and the start of the keeper. Answers with its exit number and its stderr.
COMMANDS = """
import json, os, signal, sys, tempfile
from agh.cli.main import run
from agh.cli.session import fork, new
from agh.keeper import spawn

ACTS = ("open", "os.mkdir", "os.chmod", "os.rename", "os.remove", "os.rmdir", "sqlite3.connect")
for line in sys.stdin:
    left, argv = json.loads(line)
    errors = tempfile.TemporaryFile()
    pid = os.fork()
    if pid == 0:
        def act(event, args):
            global left
            in_home = event in ACTS and args and os.environ["AGH_HOME"] in str(args[0])
            if event == "os.posix_spawn" or in_home:
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        for number in (0, 1):
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
        os.dup2(errors.fileno(), 2)
        sys.argv = ["agh", *argv]
        sys.addaudithook(act)
        try:
            code = run(argv)
        except SystemExit as end:
            code = end.code
        sys.stderr.flush()
        os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    errors.seek(0)
    print(json.dumps([code, errors.read().decode()]), flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["new", "fork"])
def test_killed_before_its_nth_act(talked: Session, live: Live, verb: str) -> None:
    argv = ("session", verb, *(["--agent", "echo"] if verb == "new" else [talked.id]))
    killed, hidden = 0, 0
    with child(COMMANDS, cwd=live.workspace) as commands:
        assert commands.stdin and commands.stdout
        for act in range(1, 100):
            ids = {session.id for session in live.sessions()}
            commands.stdin.write(json.dumps([act, argv]) + "\n")
            commands.stdin.flush()
            code, stderr = json.loads(commands.stdout.readline())
            if code == 0:
                break
            assert code == -signal.SIGKILL, stderr
            killed += 1
            hidden += any(name.startswith(".making-") for name in os.listdir(live.home / "sessions"))
            for session in live.sessions():
                assert session.meta()["id"] == session.id
                if session.id not in ids:  # then it can be gone on with
                    session.check_log()
                    assert session.say("hello") == "echo: hello"
                    session.stop()
    assert code == 0, "it is never through"
    assert killed > 10 and hidden > 5, "the kills came too late to prove anything"
    live.agh("session", "list", "--all")
    before = {session.id for session in live.sessions()}
    live.agh("session", "repair", "--all", "--dry-run")
    live.agh("session", "repair", "--all")
    assert set(os.listdir(live.home / "sessions")) == before


def test_a_directory_that_is_swept_while_it_is_made_is_made_again(
    private_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between mkdir and chmod it is there and not locked, so another command may take it for a leftover."""
    real_chmod, swept = os.chmod, list[str]()

    def chmod(path: str, mode: int) -> None:
        if ".making-" in path and not swept:
            swept.append(path)
            os.rmdir(path)
        real_chmod(path, mode)

    monkeypatch.setattr(os, "chmod", chmod)
    with create_session(new_session_id()) as lock:
        assert os.path.exists(os.path.join(lock.session, "events.db"))
    assert swept
