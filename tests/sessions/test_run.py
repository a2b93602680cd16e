"""`agh run`: a session for one prompt, also where there is no terminal and hardly an environment."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.live import Live
from tests.support.program import AGH
from tests.support.wait import wait_until


def run(live: Live, *args: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    return live.agh("run", "--agent", "echo", *args, code=code)


def test_one_prompt_and_nothing_left_running(live: Live) -> None:
    assert run(live, "hello", "-o", "text").stdout == "echo: hello\n"
    (session,) = live.sessions()
    assert not session.is_live()
    wait_until(lambda: not live.processes())
    assert (session.meta()["state"], session.meta()["stop_reason"]) == ("stopped", "completed")
    assert session.say("what did I say?") == 'SEEN 2 user texts: "hello" | "what did I say?"'


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("/refuse",), 1),
        (("/crash",), 7),
        (("/sleep 30", "--timeout", "0.3s"), 3),
    ],
)
def test_exits_as_the_turn_ended(live: Live, args: tuple[str, ...], code: int) -> None:
    run(live, *args, code=code)
    (session,) = live.sessions()
    wait_until(lambda: not live.processes())
    assert session.meta()["state"] == "stopped"
    session.check_log()


def test_what_cannot_run_leaves_no_session(live: Live) -> None:
    run(live, "", code=2)
    run(live, code=2)
    run(live, "hello", "--timeout", "soon", code=2)
    assert live.sessions() == []


def test_an_agent_that_is_not_there(live: Live) -> None:
    live.agh("run", "--command", "/no/such/agent", "hello", code=9)
    live.agh("run", "--agent", "nobody", "hello", code=4)


def test_kept_alive_when_asked(live: Live) -> None:
    turn = json.loads(run(live, "hello", "--keep", "-o", "json").stdout)["turn"]
    assert live.session(turn["session_id"]).is_live()


def test_in_crons_environment(live: Live, tmp_path: Path) -> None:
    """No terminal, no TERM, no locale, a minimal PATH, and an odd umask."""
    done = subprocess.run(
        ["sh", "-c", 'umask 077; cd /; exec env -i HOME="$1" PATH=/usr/bin:/bin AGH_HOME="$2" "$3" run hello',
         "sh", tmp_path / "user", live.home, AGH],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "echo: hello\n"), done.stderr
    assert "\x1b" not in done.stderr
    wait_until(lambda: not live.processes())


def test_without_any_standard_stream(live: Live, tmp_path: Path) -> None:
    script = 'exec env -i HOME="$1" PATH=/usr/bin:/bin AGH_HOME="$2" "$3" run "héllo" <&- >&- 2>&-'
    done = subprocess.run(["sh", "-c", script, "sh", tmp_path / "user", live.home, AGH], timeout=60)
    assert done.returncode == 0
    (session,) = live.sessions()
    assert session.text() == "echo: héllo"
    wait_until(lambda: not live.processes())
