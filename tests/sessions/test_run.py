"""`agh run`: a session for one prompt, also where there is no terminal and hardly an environment."""

from __future__ import annotations

import json
import signal
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agh.core.events import timestamp
from tests.support.answering import Answering
from tests.support.build import Home, user
from tests.support.files import tree
from tests.support.live import ECHO, Live
from tests.support.program import AGH, in_process
from tests.support.terminal import run_on_terminal
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


def test_a_picture_that_the_agent_does_not_take_leaves_nothing(live: Live) -> None:
    """The agent says what it takes only once it runs, so its session is deleted again."""
    Answering(live)
    picture = live.workspace / "screen.png"
    picture.write_bytes(b"no picture")
    args = ("--agent", "answering", "--name", "look", "look", "--attach", picture)
    result = live.agh("run", *args, code=2)
    assert result.stderr.splitlines() == [
        f"agh: agent answering does not accept images ({picture})",
        "hint: leave it out, or use an agent that takes images",
    ]
    assert live.sessions() == []
    wait_until(lambda: not live.processes(), what="the keeper's end")
    older = live.new(args=("--name", "look"))
    older.stop()
    live.agh("run", *args, "--replace", code=2)
    assert [session.id for session in live.sessions()] == [older.id]
    assert not older.meta()["archived"], "it has its name back"


def test_an_agent_that_is_not_there(live: Live) -> None:
    live.agh("run", "--command", "/no/such/agent", "hello", code=9)
    live.agh("run", "--agent", "nobody", "hello", code=4)


def test_kept_alive_when_asked(live: Live) -> None:
    turn = json.loads(run(live, "hello", "--keep", "-o", "json").stdout)["turn"]
    assert live.session(turn["session_id"]).is_live()


def test_in_crons_environment(live: Live, tmp_path: Path) -> None:
    """No terminal, no TERM, no locale, a minimal PATH, and an odd umask."""
    result = subprocess.run(
        ["sh", "-c", 'umask 077; cd /; exec env -i HOME="$1" PATH=/usr/bin:/bin AGH_HOME="$2" "$3" run hello',
         "sh", tmp_path / "user", live.home, AGH],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )  # fmt: skip
    assert (result.returncode, result.stdout) == (0, "echo: hello\n"), result.stderr
    assert "\x1b" not in result.stderr
    wait_until(lambda: not live.processes())


def test_without_any_standard_stream(live: Live, tmp_path: Path) -> None:
    script = 'exec env -i HOME="$1" PATH=/usr/bin:/bin AGH_HOME="$2" "$3" run "héllo" <&- >&- 2>&-'
    result = subprocess.run(["sh", "-c", script, "sh", tmp_path / "user", live.home, AGH], timeout=60)
    assert result.returncode == 0
    (session,) = live.sessions()
    assert session.text() == "echo: héllo"
    wait_until(lambda: not live.processes())


@pytest.mark.parametrize(
    ("args", "code"),
    [(("hello",), 0), (("/error -32603 no",), 1), (("/sleep 30", "--timeout", "0.3s"), 3)],
    ids=["done", "failed", "timeout"],
)
def test_removed_however_the_turn_ended(live: Live, args: tuple[str, ...], code: int) -> None:
    result = run(live, "--rm", *args, code=code)
    assert live.sessions() == []
    wait_until(lambda: not live.processes())
    assert "sess-" not in result.stderr, "it names nothing that is gone"


def test_what_did_not_start_is_removed_too(live: Live) -> None:
    live.agh("run", "--rm", "--command", "/no/such/agent", "hello", code=9)
    wait_until(lambda: live.sessions() == [])


def test_a_session_that_can_be_resumed_is_not_removed(live: Live) -> None:
    result = run(live, "--rm", "/crash", code=7)
    (session,) = live.sessions()
    assert f"{session.id} was not deleted" in result.stderr


def test_a_session_that_others_use_is_not_removed(live: Live) -> None:
    process = live.start("run", "--agent", "echo", "--rm", "/say ready\n/sleep 60", "-o", "jsonl")
    wait_until(live.sessions)
    (session,) = live.sessions()
    session.wait_for_text("ready")
    session.send("/sleep 60")
    session.call("cancel")
    _, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert f"{session.id} was not deleted: it has other prompts to answer" in err.decode()
    assert [each.id for each in live.sessions()] == [session.id]


def test_cancelled_is_ended_and_removed(live: Live) -> None:
    process = live.start("run", "--agent", "echo", "--rm", "/say ready\n/sleep 60", "-o", "jsonl")
    wait_until(live.sessions)
    (session,) = live.sessions()
    session.wait_for_text("ready")
    live.has_printed(process)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    assert live.sessions() == []


@pytest.mark.parametrize("keep", [False, True])
def test_a_second_ctrl_c_does_what_it_says(live: Live, keep: bool) -> None:
    option = ["--keep"] if keep else []
    text = "/ignore-cancel\n/say ready\n/sleep 60"
    process = live.start("run", "--agent", "echo", *option, text, "-o", "jsonl")
    wait_until(live.sessions)
    (session,) = live.sessions()
    assert process.stdout
    assert any(b"ready" in line for line in process.stdout), "from here on Ctrl-C is about the turn"
    process.send_signal(signal.SIGINT)
    wait_until(lambda: "prompt_cancel" in session.markers())
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    first, second = (
        ("leave it running", "keeps working") if keep else ("stop the session", "stopping the session")
    )
    assert first in err.decode() and second in err.decode()
    assert session.is_live() is keep


def test_rm_does_not_go_with_keep_or_continue(live: Live) -> None:
    for option in ("--keep", "--continue"):
        assert "--rm" in live.agh("run", "--rm", option, "hello", code=2).stderr
    assert live.sessions() == []


def run_error(live: Live, *args: str, verb: str = "run", code: int = 2) -> str:
    """Return the errors of a command that is refused and starts no keeper ahead, so that it can run here."""
    result = in_process(verb, *args, cwd=live.workspace)
    assert result.returncode == code, result
    return str(result.stderr)


def test_continue_is_the_newest_session_here(live: Live, tmp_path: Path) -> None:
    home = Home(live.home)
    home.session(workspace_path=str(live.workspace))
    second = live.new()
    second.stop()
    now = timestamp(datetime.now(UTC))
    home.session(workspace_path=str(live.workspace), archived=True, created_at=now, updated_at=now)
    (tmp_path / "elsewhere").mkdir()
    other = live.new(args=("--workspace", str(tmp_path / "elsewhere")))
    result = live.agh("run", "--continue", "hello", "-o", "json")
    assert json.loads(result.stdout)["turn"]["session_id"] == second.id
    assert not second.is_live(), "it was stopped before"
    result = live.agh("prompt", "-c", "go on", "-o", "json")
    assert json.loads(result.stdout)["turn"]["session_id"] == second.id
    assert second.is_live()
    live.agh("run", "-c", "once more")
    assert second.is_live(), "it was live before"
    second.stop()
    live.agh("run", "-c", "--keep", "and stay")
    assert second.is_live()
    assert len(live.sessions()) == 4 and other.is_live()


def test_continue_where_there_is_nothing(live: Live) -> None:
    for verb in ("run", "prompt"):
        error = run_error(live, "-c", "hello", verb=verb, code=4)
        assert "agh: there is no session here to continue\nhint: agh run TEXT" in error
    assert live.sessions() == []


def test_continue_takes_no_options_of_a_new_session(live: Live) -> None:
    session = Home(live.home).session([user("hello")], workspace_path=str(live.workspace))
    before = tree(live.home)
    for option in (["--agent", "echo"], ["--name", "x"], ["--model", "large"], ["--replace"]):
        assert f"{option[0]} is only for a new session" in run_error(live, "-c", *option, "hello")
    assert "ID" in run_error(live, "-c", session.name, "hello", verb="prompt")
    assert tree(live.home) == before


def test_a_prompt_without_a_session_offers_the_newest(live: Live) -> None:
    Home(live.home).session(workspace_path=str(live.workspace))
    error = run_error(live, "why does it fail?", verb="prompt")
    assert error.endswith("hint: agh prompt --continue 'why does it fail?'\n")


def test_the_agent_that_was_chosen_is_said(live: Live, tmp_path: Path) -> None:
    result = live.agh("run", "hello", env={"PATH": "/nowhere"})
    assert "built-in echo agent" in result.stderr
    agents = live.home / "agents"
    agents.mkdir(exist_ok=True)
    (agents / "mine.toml").write_text(f"argv = {json.dumps(list(ECHO))}\n")
    result = live.agh("run", "hello", env={"PATH": "/nowhere"})
    assert result.stderr == "starting mine, the first installed agent; choose another with --agent\n"
    assert live.agh("run", "--agent", "mine", "hello").stderr == ""
    live.configure('agent = "mine"\n')
    assert live.agh("run", "hello").stderr == ""
    assert live.agh("new").stderr == ""


def test_on_a_terminal_new_shows_what_it_starts(live: Live) -> None:
    code, printed = run_on_terminal(
        "new", "--agent", "echo", "--workspace", live.workspace, env={"AGH_HOME": str(live.home)}
    )
    (session,) = live.sessions()
    assert (code, printed) == (0, f"starting echo in {live.workspace}\r\n{session.id}\r\n")
