"""`agh session new` and `fork`, killed before each of their acts: a session is there whole, or not at all."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from agh.home import new_session_id
from agh.store.create import create_session
from tests.support.live import Live

# In the command alone: every act in the home that Python tells of, and the start of the keeper.
KILLER = """
import os, signal, sys

ACTS = ("open", "os.mkdir", "os.chmod", "os.rename", "os.remove", "os.rmdir", "sqlite3.connect")

def act(event, args):
    global left
    if event == "os.posix_spawn" or (event in ACTS and args and os.environ["AGH_HOME"] in str(args[0])):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

left = int(os.environ.get("AGH_TEST_KILL_AT", 0))
if left and "session" in sys.orig_argv:
    sys.addaudithook(act)
"""


@pytest.mark.slow
@pytest.mark.timeout(400)  # some eighty starts of the program
@pytest.mark.parametrize("verb", ["new", "fork"])
def test_killed_before_its_nth_act(live: Live, tmp_path: Path, verb: str) -> None:
    origin = live.new()
    origin.tell("hello")
    origin.stop()
    (tmp_path / "sitecustomize.py").write_text(KILLER)
    argv = ("session", verb, *(["--agent", "echo"] if verb == "new" else [origin.id]))
    killed, hidden = 0, 0
    for act in range(1, 100):
        ids = {session.id for session in live.sessions()}
        env = {"PYTHONPATH": str(tmp_path), "AGH_TEST_KILL_AT": str(act)}
        result = live.agh(*argv, env=env, code=None)
        if result.returncode == 0:
            break
        assert result.returncode == -signal.SIGKILL, result.stderr
        killed += 1
        hidden += any(name.startswith(".making-") for name in os.listdir(live.home / "sessions"))
        for session in live.sessions():
            assert session.meta()["id"] == session.id
            if session.id not in ids:  # then it can be gone on with
                session.check_log()
                assert session.say("hello") == "echo: hello"
                session.stop()
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
