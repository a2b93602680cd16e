"""Hooks: the user's commands, told what happens; each run is a row; what is required can stop the session."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.live import Live, Session
from tests.support.permissions import pending, received
from tests.support.wait import wait_until


def hook(event: str, command: str | list[str], **fields: object) -> str:
    given = {"event": event, "command": command, **fields}
    return "[[hooks]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in given.items())


def runs(session: Session, *columns: str) -> list[tuple[Any, ...]]:
    return session.fetch(f"SELECT {', '.join(columns)} FROM hook_runs ORDER BY id")


def stopped_by_hook(session: Session, said: str) -> None:
    wait_until(lambda: not session.is_live())
    meta = session.meta()
    assert (meta["state"], meta["stop_reason"]) == ("stopped", "hook_stopped")
    assert said in meta["stop_detail"]
    assert session.events()[-1].type == "session_stopped"
    assert session.events()[-1].content["stop_reason"] == "hook_stopped"


def test_a_whole_life_is_told(live: Live, tmp_path: Path) -> None:
    told = tmp_path / "told.jsonl"
    events = ("session_start", "prompt", "turn_end", "session_stop", "session_resume")
    live.configure("".join(hook(event, f"cat >> {told}; echo heard") for event in events))
    session = live.new()
    turn = session.send("hello")
    session.wait_idle()
    session.stop()
    session.say("again")
    wait_until(lambda: len(runs(session, "id")) == 7)
    expected = ["session_start", "prompt", "turn_end", "session_stop", "session_resume", "prompt", "turn_end"]
    assert runs(session, "event", "outcome", "exit_code", "output", "source", "required") == [
        (event, "ok", 0, "heard\n", "config", 0) for event in expected
    ]
    documents = [json.loads(line) for line in told.read_text().splitlines()]
    assert [document["event"] for document in documents] == expected
    assert {document["session_id"] for document in documents} == {session.id}
    assert (documents[1]["text"], documents[1]["turn_id"]) == ("hello", turn)
    assert (documents[2]["stop_reason"], documents[3]["stop_reason"]) == ("end_turn", "completed")


def test_a_hook_runs_in_the_workspace_and_knows_the_session(live: Live) -> None:
    live.configure(hook("prompt", 'pwd; echo "$AGH_SESSION_ID"; readlink /proc/$$/fd/* || true'))
    session = live.new()
    session.tell("hello")
    ((output,),) = runs(session, "output")
    where, who, *open_files = output.splitlines()
    assert (where, who) == (str(live.workspace), session.id)
    assert not [path for path in open_files if str(live.home) in path], "neither the lock nor the log"


def test_a_command_can_be_a_list(live: Live) -> None:
    """It is started as it stands, without a shell."""
    live.configure(hook("turn_end", ["printf", "%s|", "$HOME", "two words", "a;b"]))
    session = live.new()
    session.tell("hello")
    wait_until(lambda: runs(session, "outcome"))
    assert runs(session, "outcome", "output") == [("ok", "$HOME|two words|a;b|")]
    (name,) = runs(session, "hook")[0]
    assert name == "printf '%s|' '$HOME' 'two words' 'a;b'"


@pytest.mark.parametrize("command", ["[]", "[1]", '[""]', "7"])
def test_a_command_that_is_neither_text_nor_words_is_refused(live: Live, command: str) -> None:
    live.configure(f'[[hooks]]\nevent = "turn_end"\ncommand = {command}\n')
    live.agh("session", "new", "--agent", "echo", code=2)
    assert live.sessions() == []


def test_a_required_hook_that_fails_stops_the_session(live: Live) -> None:
    live.configure(hook("prompt", "grep -q good || { echo not good; exit 3; }", required=True))
    session = live.new()
    assert session.say("good") == "echo: good"
    result = session.prompt("bad", code=None)
    assert result.returncode not in (0, 70)
    assert "hook" in result.stderr
    stopped_by_hook(session, "grep -q good")
    assert runs(session, "outcome", "exit_code", "output", "required") == [
        ("ok", 0, "", 1),
        ("failed", 3, "not good\n", 1),
    ]
    assert received(session) == ["good"], "the agent never had it"
    assert session.inputs() == [("sent", "good"), ("failed", "bad")]
    assert session.say("good again") == "echo: good again", "the session can be resumed"


def test_a_hook_that_is_not_required_may_fail(live: Live) -> None:
    live.configure(hook("prompt", "exit 3") + hook("turn_end", "no-such-program"))
    session = live.new()
    assert session.say("hello") == "echo: hello"
    wait_until(lambda: len(runs(session, "id")) == 2)
    assert [row[:2] for row in runs(session, "outcome", "exit_code", "output")] == [
        ("failed", 3),
        ("failed", 127),
    ]
    assert session.is_live()


@pytest.mark.parametrize("required", [False, True])
def test_a_hanging_hook_is_killed_at_its_timeout_with_its_children(live: Live, required: bool) -> None:
    live.configure(
        hook("prompt", "echo begun; setsid sleep 301 & sleep 302", timeout="0.5s", required=required)
    )
    session = live.new()
    result = session.prompt("hello", "-o", "text", code=None)
    ((outcome, output, took),) = runs(session, "outcome", "output", "duration_ms")
    assert (outcome, output) == ("timeout", "begun\n")
    assert 500 <= took < 10_000
    assert [process for process in live.processes() if process.argv[0] == "sleep"] == []
    if required:
        stopped_by_hook(session, "timed out")
        assert result.returncode not in (0, 70)
        assert received(session) == []
    else:
        assert (result.returncode, result.stdout) == (0, "echo: hello\n")


def test_what_a_hook_leaves_behind_is_ended(live: Live) -> None:
    live.configure(hook("prompt", "setsid sleep 301 >/dev/null 2>&1 &"))
    session = live.new()
    assert session.say("hello") == "echo: hello"
    assert [process for process in live.processes() if process.argv[0] == "sleep"] == []
    assert runs(session, "outcome") == [("ok",)]


def test_an_async_hook_is_not_waited_for(live: Live) -> None:
    live.configure(hook("prompt", "while ! test -e go; do sleep 0.05; done; echo went", mode="async"))
    session = live.new()
    assert session.say("hello") == "echo: hello"
    assert runs(session, "id") == [], "it still runs"
    (live.workspace / "go").touch()
    wait_until(lambda: runs(session, "id"))
    assert runs(session, "event", "outcome", "output") == [("prompt", "ok", "went\n")]


def test_an_async_hook_that_is_required_stops_the_session_when_it_fails(live: Live) -> None:
    live.configure(hook("prompt", "exit 4", mode="async", required=True))
    session = live.new()
    session.send("/sleep 30")
    stopped_by_hook(session, "exit 4")
    assert runs(session, "outcome", "exit_code") == [("failed", 4)]


def test_an_async_hook_at_the_end_is_run_to_its_end(live: Live) -> None:
    live.configure(hook("session_stop", "sleep 0.5; touch ran", mode="async"))
    session = live.new()
    session.stop()
    assert (live.workspace / "ran").exists()
    assert runs(session, "event", "outcome") == [("session_stop", "ok")]


def test_a_hanging_async_hook_does_not_hold_up_the_end(live: Live) -> None:
    live.configure(hook("prompt", "sleep 303", mode="async", timeout="5m"))
    session = live.new()
    session.tell("hello")
    started = time.monotonic()
    session.agh("stop")
    assert time.monotonic() - started < 20
    assert not session.is_live()
    assert runs(session, "event", "outcome") == [("prompt", "timeout")]
    assert [process for process in live.processes() if process.argv[0] == "sleep"] == []


def test_a_required_hook_can_stop_the_start(live: Live) -> None:
    live.configure(hook("session_start", "exit 5", required=True))
    result = live.agh("session", "new", "--agent", "echo", code=1)
    assert "exit 5" in result.stderr
    (session,) = live.sessions()
    stopped_by_hook(session, "exit 5")
    assert runs(session, "event", "outcome", "exit_code") == [("session_start", "failed", 5)]


def test_a_required_hook_can_stop_a_resume(live: Live) -> None:
    live.configure(hook("session_resume", "exit 5", required=True))
    session = live.new()
    session.tell("hello")
    session.stop()
    session.agh("resume", code=1)
    stopped_by_hook(session, "exit 5")
    live.configure("")
    assert session.say("what did I say?").startswith("SEEN 2"), "nothing is lost"


def test_a_required_hook_can_stop_the_session_after_a_turn(live: Live) -> None:
    live.configure(hook("turn_end", "exit 6", required=True))
    session = live.new()
    session.send("/ask path=a.txt")
    pending(session)
    session.send("/say waits")
    session.decide("allow")
    stopped_by_hook(session, "exit 6")
    assert [status for status, _ in session.inputs()] == ["sent", "queued"]


def test_a_hook_hears_of_permissions(live: Live, tmp_path: Path) -> None:
    live.configure(hook("permission", f"cat > {tmp_path}/told.json"))
    session = live.new()
    session.send("/ask path=a.txt")
    pending(session)
    wait_until(lambda: runs(session, "id"), 5)
    told = json.loads((tmp_path / "told.json").read_text())
    assert (told["event"], told["resource"]) == ("permission", str(live.workspace / "a.txt"))
    assert session.decide("allow")["decision"] == "allowed"


def test_a_required_hook_can_stop_the_session_at_a_permission(live: Live) -> None:
    live.configure(hook("permission", "exit 7", required=True))
    session = live.new()
    session.send("/ask path=a.txt")
    stopped_by_hook(session, "exit 7")
    assert session.fetch("SELECT decision FROM permissions") == [("cancelled",)]


def test_what_waits_behind_a_stopped_prompt_is_kept(live: Live) -> None:
    # No hexadecimal word: the hook is told the turn's id, too.
    live.configure(hook("prompt", "! grep -q wrong", required=True))
    session = live.new()
    session.send("/ask path=a.txt")
    pending(session)
    session.send("wrong")
    session.send("/say waits")
    session.decide("allow")
    stopped_by_hook(session, "grep -q wrong")
    assert session.inputs()[1:] == [("failed", "wrong"), ("queued", "/say waits")]
    assert received(session) == ["/ask path=a.txt"]


def test_a_cancel_while_a_hook_runs(live: Live) -> None:
    """The prompt is not sent any more."""
    live.configure(hook("prompt", "test -e go || { touch go; sleep 1; }"))
    session = live.new()
    session.send("/sleep 30")
    wait_until((live.workspace / "go").exists)
    session.agh("cancel")
    session.wait_idle()
    assert [event.content["stop_reason"] for event in session.events("done")] == ["cancelled"]
    assert received(session) == []
    assert session.tell("/say next") == "next"


def test_a_large_prompt_to_a_hook_that_does_not_read(live: Live) -> None:
    live.configure(hook("prompt", "exec true") + "[session]\ninput_bytes = 500000\n")
    session = live.new()
    assert session.tell("x" * 300_000) == "echo: " + "x" * 300_000
    assert runs(session, "outcome") == [("ok",)]


@pytest.mark.parametrize(
    "toml",
    [
        "[[hooks]]\nevent = 'prompt'",
        "[[hooks]]\nevent = 'moonrise'\ncommand = 'true'",
        "[[hooks]]\nevent = 'prompt'\ncommand = 'true'\nmode = 'later'",
        "[[hooks]]\nevent = 'prompt'\ncommand = 'true'\ntimeout = 'soon'",
        "[[hooks]]\nevent = 'prompt'\ncommand = 'true'\nrequire = true",
        "[hooks]\nevent = 'prompt'\ncommand = 'true'",
    ],
)
def test_a_hook_that_makes_no_sense_is_an_error_before_anything_starts(live: Live, toml: str) -> None:
    live.configure(toml)
    result = live.agh("session", "new", "--agent", "echo", "-o", "json", code=2)
    assert json.loads(result.stderr)["error"]["code"] == "config_invalid"
    assert live.sessions() == []
