"""Prompts that meet a usage limit wait in the queue until it resets, and are sent once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agh import home
from agh.store.views import session_view
from tests.support.clock import Clock
from tests.support.live import Live, Session, Share
from tests.support.permissions import received
from tests.support.processes import kill
from tests.support.receiver import receiver
from tests.support.resume import define
from tests.support.wait import wait_until

PARK = "[session.limits]\non_usage_limit = 'park'\njitter = 0"
NO_JITTER = "[session.limits]\njitter = 0"
LIMIT = "/limit 1 You've hit your usage limit. Upgrade to Pro or try again in 2 hours."
SOON = "/limit 1 You've hit your usage limit. Upgrade to Pro or try again in 1 second."


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    return Clock(tmp_path / "clock")


def view(session: Session) -> dict[str, Any]:
    return session_view(home.Session.at(session.directory))


def start(live: Live, clock: Clock, toml: str = NO_JITTER, *args: str) -> Session:
    live.configure(toml)
    return clock.new(live, *args)


def wake(session: Session) -> None:
    """Let the keeper look at its clock."""
    session.hello()


def prompts(session: Session) -> list[str]:
    """Return what was sent, in order."""
    return [event.content["text"] for event in session.events("user_message")]


def park(session: Session, text: str = LIMIT + "\n/say done") -> None:
    result = session.prompt(text, "--park", code=10)
    assert "has reached a usage limit" in result.stderr


def next_limit(session: Session, text: str) -> str:
    """Return a prompt that meets a limit once, whatever the agent of the session has met before."""
    earlier = sum("/limit" in prompt for prompt in received(session))
    return text.replace("/limit 1", f"/limit {earlier + 1}")


def test_a_parked_prompt_is_sent_when_the_limit_has_reset(live: Live, clock: Clock) -> None:
    session = start(live, clock)
    park(session)
    seen = view(session)
    assert (seen["state"], seen["phase"], seen["badge"]) == ("active", "limited", "limited")
    assert seen["resumes_at"] == session.events("error")[0].content["resumes_at"]
    assert [status for status, _ in session.inputs()] == ["queued"]
    assert "limited until" in session.agh("status").stdout
    assert "limited until" in live.agh("list").stdout
    wake(session)
    assert view(session)["badge"] == "limited"
    clock.set(7300)
    wake(session)
    session.wait_for_text("done")
    session.agh("wait")
    assert prompts(session) == [LIMIT + "\n/say done"] * 2, "nothing was done, so the same prompt"
    assert [status for status, _ in session.inputs()] == ["sent"]
    meta = session.meta()
    assert (meta["resumes_at"], meta["limited"], meta["turns"]) == (None, None, 1)
    assert {"prompt_parked", "limit_reset"} <= {*session.markers()}
    session.check_log()


def test_an_agent_that_had_begun_is_asked_to_continue(live: Live, clock: Clock) -> None:
    session = start(live, clock, NO_JITTER + "\ncontinue_with = '/say going on'")
    park(session, "/say begun\n" + LIMIT)
    clock.set(7300)
    wake(session)
    session.wait_for_text("going on")
    assert prompts(session)[1:] == ["/say going on"]


def test_without_park_the_turn_fails_and_says_when(shared_with: Share) -> None:
    session = shared_with(NO_JITTER)
    error = session.error("prompt", next_limit(session, LIMIT), code=1)
    assert "usage limit" in error["message"]
    assert "--park" in error["hint"]
    assert session.events("error")[0].content["failure_kind"] == "usage_limit"
    assert [status for status, _ in session.inputs()] == ["failed"]


def test_the_setting_parks_too(live: Live, clock: Clock) -> None:
    session = start(live, clock, PARK)
    session.prompt(LIMIT, code=10)


def test_wait_blocks_until_the_prompt_is_done(shared_with: Share) -> None:
    session = shared_with(NO_JITTER)
    result = session.prompt(next_limit(session, SOON) + "\n/say done", "--wait", "-o", "text")
    assert result.stdout.strip().endswith("done")
    assert "has reached a usage limit" in result.stderr


def test_wait_prints_one_document(shared_with: Share) -> None:
    session = shared_with(NO_JITTER)
    result = session.prompt(next_limit(session, SOON) + "\n/say done", "--wait", "-o", "json")
    assert json.loads(result.stdout)["turn"]["text"] == "done"


def test_run_leaves_a_parked_session_live(live: Live) -> None:
    live.configure(NO_JITTER)
    live.agh("run", "--agent", "echo", "--park", LIMIT, code=10)
    (session,) = live.sessions()
    assert session.is_live()


def test_a_prompt_to_a_limited_session_waits_behind(live: Live, clock: Clock) -> None:
    session = start(live, clock)
    park(session)
    assert "has reached a usage limit" in session.prompt("/say second", code=10).stderr
    clock.set(7300)
    wake(session)
    session.wait_for_text("second")
    assert prompts(session)[1:] == [LIMIT + "\n/say done", "/say second"]


def test_cancel_while_parked(live: Live, clock: Clock) -> None:
    session = start(live, clock)
    park(session)
    session.agh("cancel")
    assert view(session)["badge"] == "idle"
    assert [status for status, _ in session.inputs()] == ["cancelled"]
    clock.set(7300)
    wake(session)
    assert session.tell("/say other") == "other"
    assert len(prompts(session)) == 2


def test_cancel_while_parked_and_stopped(live: Live, clock: Clock) -> None:
    session = start(live, clock)
    park(session)
    session.agh("stop")
    assert view(session)["badge"] == "limited"
    session.agh("cancel")
    assert view(session)["badge"] == "stopped"
    clock.set(7300)
    assert json.loads(live.agh("session", "due", "--run", "-o", "json", env=clock.env).stdout) == {"due": []}
    assert not session.is_live()


def test_an_interrupting_prompt_takes_the_place_of_the_parked_one(live: Live, clock: Clock) -> None:
    session = start(live, clock)
    park(session)
    assert session.prompt("/say now", "--interrupt", "-o", "text").stdout.strip() == "now"
    assert [status for status, _ in session.inputs()] == ["cancelled", "sent"]
    assert session.meta()["resumes_at"] is None


def test_at_most_so_many_windows(live: Live, clock: Clock) -> None:
    session = start(live, clock, NO_JITTER + "\nmax_windows = 2")
    prompt = LIMIT.replace("/limit 1", "/limit 9")
    session.prompt(prompt, "--park", code=10)
    for window in (1, 2):
        clock.set(7300 * window)
        wake(session)
        wait_until(lambda window=window: len(session.events("error")) == window + 1)
    assert "not parked: it was parked 2 times" in session.events("error")[-1].content["error"]
    assert [status for status, _ in session.inputs()] == ["failed"]
    wait_until(lambda: view(session)["badge"] == "idle")


def test_not_past_the_limit_on_time(live: Live) -> None:
    session = live.new(args=("--max-time", "1h"))
    session.prompt(LIMIT, "--park", code=1)
    reason = "not parked: the session reaches its max_time limit before the reset"
    assert reason in session.events("error")[0].content["error"]


def test_not_past_the_limit_on_cost(live: Live) -> None:
    session = live.new(args=("--max-cost", "1"))
    result = session.prompt("/usage 10 5 2\n" + LIMIT, "--park", code=1)
    assert "not parked: the session has reached its max_cost limit" in result.stderr
    assert "--park" not in result.stderr
    wait_until(lambda: not session.is_live())
    assert view(session)["badge"] == "paused"
    assert session.meta().get("resumes_at") is None


def test_not_while_a_question_waits(live: Live, clock: Clock) -> None:
    session = start(live, clock)
    park(session)
    session.agh("stop")
    meta = json.loads((session.directory / "meta.json").read_text())
    (session.directory / "meta.json").write_text(json.dumps(meta | {"orphaned_questions": 1}))
    clock.set(7300)
    rows = json.loads(live.agh("session", "due", "-o", "json", env=clock.env).stdout)["due"]
    assert [row["status"] for row in rows] == ["question"]
    live.agh("session", "due", "--run", env=clock.env)
    assert not session.is_live()


def test_a_reboot_while_parked_and_five_crons_at_once(live: Live, clock: Clock) -> None:
    """Everything is killed. Five crons, in cron's environment, revive the session; one prompt is sent."""
    session = start(live, clock)
    park(session)
    processes = session.keeper, session.leash, session.agent
    for pid in processes:
        with suppress(ProcessLookupError):  # some end when the others do
            kill(pid)
    wait_until(lambda: not session.is_live())
    assert view(session)["badge"] == "limited"
    early = json.loads(live.agh("session", "due", "--run", "-o", "json", env=clock.env).stdout)
    assert early == {"due": []}
    clock.set(7300)
    crons = [start_cron(live, clock) for _ in range(5)]
    outputs = [cron.communicate(timeout=60) for cron in crons]
    assert [cron.returncode for cron in crons] == [0] * 5, outputs
    session.wait_for_text("done")
    session.wait_idle()
    assert len(prompts(session)) == 2
    assert [status for status, _ in session.inputs()] == ["sent"]
    session.check_log()


def start_cron(live: Live, clock: Clock, **more: str) -> subprocess.Popen[str]:
    """Start what a crontab has, with nothing in the environment but what cron sets."""
    bare = {"HOME": os.environ["HOME"], "PATH": "/usr/bin:/bin", "LOGNAME": "me", "SHELL": "/bin/sh"}
    ours = {"AGH_HOME": str(live.home), "AGH_ECHO_HOME": os.environ["AGH_ECHO_HOME"], **clock.env, **more}
    command = [str(Path(sys.executable).with_name("agh")), "session", "due", "--run", "-o", "json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=bare | ours, cwd="/", **pipes)  # type: ignore[call-overload,no-any-return]


def test_cron_finds_the_agent_where_it_was(live: Live, clock: Clock, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    program = programs / "my-agent"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -P -m agh_echo\n")
    program.chmod(0o755)
    env = clock.env | {"PATH": f"{programs}:{os.environ['PATH']}", "MY_API_KEY": "sk-0123456789"}
    live.configure(NO_JITTER)
    made = live.agh("session", "new", "--agent", "echo", "--command", "my-agent", env=env)
    session = live.session(made.stdout.strip())
    park(session)
    session.agh("stop")
    assert "sk-0123456789" not in (session.directory / "meta.json").read_text()
    clock.set(7300)
    cron = start_cron(live, clock)
    _, err = cron.communicate(timeout=60)
    assert cron.returncode == 0, err
    assert "MY_API_KEY" in err
    session.wait_for_text("done")


def test_cron_gets_keys_from_a_private_file(live: Live, clock: Clock, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("MY_API_KEY=sk-of-the-file\n")
    keys.chmod(0o644)
    live.configure(f"{NO_JITTER}\n[env]\nfile = '{keys}'")
    refused = live.agh("session", "new", "--agent", "echo", code=5)
    assert f"chmod 600 {keys}" in refused.stderr
    assert live.sessions() == []
    keys.chmod(0o600)
    session = live.new(env=clock.env | {"MY_API_KEY": "sk-of-the-shell"})
    park(session, LIMIT + "\n/env MY_API_KEY")
    session.agh("stop")
    clock.set(7300)
    keys.chmod(0o640)
    cron = start_cron(live, clock)
    _, err = cron.communicate(timeout=60)
    assert cron.returncode == 1
    assert f"chmod 600 {keys}" in err
    keys.chmod(0o600)
    cron = start_cron(live, clock)
    _, err = cron.communicate(timeout=60)
    assert (cron.returncode, err) == (0, ""), "nothing is missing"
    session.wait_for_text("MY_API_KEY=sk-of-the-file")


def test_what_is_missing_is_said(live: Live, clock: Clock) -> None:
    session = start(live, clock)
    park(session)
    session.agh("stop")
    live.workspace.rename(live.workspace.with_name("elsewhere"))
    try:
        clock.set(7300)
        result = live.agh("session", "due", "--run", env=clock.env, code=1, cwd="/")
    finally:
        live.workspace.with_name("elsewhere").rename(live.workspace)
    assert session.id in result.stderr
    assert str(live.workspace) in result.stderr
    assert not session.is_live()


def test_a_start_that_fails_is_notified_once(live: Live, clock: Clock) -> None:
    with receiver() as hook:
        live.configure(f"{NO_JITTER}\n[notify]\nwebhook = '{hook.url}'\nevents = ['failed']")
        session = clock.new(live, "--name", "work")
        park(session)
        session.agh("stop")
        clock.set(7300)
        live.workspace.rename(live.workspace.with_name("elsewhere"))
        try:
            for _ in range(2):
                live.agh("session", "due", "--run", env=clock.env, code=1, cwd="/")
        finally:
            live.workspace.with_name("elsewhere").rename(live.workspace)
        assert hook.next().content["title"] == "work failed"
        assert str(live.workspace) in hook.next().content["text"]
        assert len(hook.received) == 1


WAITS = """/stderr level=ERROR error="5-hour usage limit reached. Resets in 2 hours."\n/sleep 600"""


def start_waiting(live: Live, clock: Clock) -> Session:
    """Start an agent that waits for a reset by itself and says so only on stderr, as OpenCode does."""
    define(live, "waiter", error_log='level=ERROR error="(.*)"')
    live.configure(NO_JITTER)
    return clock.new(live, "--agent", "waiter")


def test_an_agent_that_would_wait_by_itself_is_parked(live: Live, clock: Clock) -> None:
    session = start_waiting(live, clock)
    session.prompt(WAITS, "--park", code=10)
    assert session.events("error")[0].content["failure_kind"] == "usage_limit"
    assert session.meta()["limited"]["begun"] is False
    session.agh("cancel")
    assert session.tell("/say next") == "next"


def test_an_agent_that_would_wait_by_itself_fails_at_once_without_park(live: Live, clock: Clock) -> None:
    session = start_waiting(live, clock)
    error = session.error("prompt", WAITS, code=1)
    assert "5-hour usage limit reached" in error["message"]
    assert "--park" in error["hint"]


def test_two_sessions_of_one_account_wait_and_continue_apart(live: Live, clock: Clock) -> None:
    first, second = start(live, clock), start(live, clock)
    park(first, LIMIT + "\n/say first")
    park(second, LIMIT + "\n/say second")
    rows = json.loads(live.agh("session", "due", "-o", "json", env=clock.env).stdout)["due"]
    assert sorted(row["session_id"] for row in rows) == sorted([first.id, second.id])
    assert {row["status"] for row in rows} == {"live"}
    first.agh("stop")
    clock.set(7300)
    wake(second)
    second.wait_for_text("second")
    assert "first" not in first.text()
    live.agh("session", "due", "--run", env=clock.env)
    first.wait_for_text("first")
    assert (len(prompts(first)), len(prompts(second))) == (2, 2)


def test_wait_blocks_for_a_stopped_session_too(live: Live, clock: Clock) -> None:
    session = start(live, clock)
    park(session)
    session.agh("stop")
    with live.start("session", "wait", session.id, "-o", "json", env=clock.env) as waiting:
        live.waits(waiting)
        clock.set(7300)
        live.agh("session", "due", "--run", env=clock.env)
        out, _ = waiting.communicate(timeout=30)
    assert json.loads(out)["session"]["badge"] == "idle"
    assert session.text().endswith("done")


def test_the_jitter_is_added(live: Live) -> None:
    live.configure("[session.limits]\njitter = '1h'")
    session, times = live.new(), set()
    for _ in range(3):
        park(session, next_limit(session, LIMIT))
        times.add(session.meta()["resumes_at"])
        session.agh("cancel")
    assert len(times) == 3
    assert all(at >= time.strftime("%Y-%m-%dT%H", time.gmtime(time.time() + 7100)) for at in times)


BODY = {"error": {"type": "usage_limit_reached", "message": "The usage limit has been reached"}}


@pytest.mark.parametrize(
    "text",
    [
        # Claude, as its adapter reports it: https://github.com/anthropics/claude-code/issues/42042
        "/limit 1 Internal error: You've hit your limit · resets 11:59pm (UTC)",
        # Claude, as a message that ends the turn: https://github.com/anthropics/claude-code/issues/73038
        "You've hit your session limit · resets 11:59pm (UTC)",
        # Codex, the provider's own body: https://github.com/earendil-works/pi/issues/4172
        "/limit 1 " + json.dumps({"error": {**BODY["error"], "resets_in_seconds": 13872}}),
        # Gemini, TerminalQuotaError: https://github.com/google-gemini/gemini-cli (googleQuotaErrors.ts)
        "/limit 1 You have exhausted your capacity on this model. Your quota will reset after 1h49m8s.",
        # OpenCode Go: https://github.com/anomalyco/opencode/issues/49170
        "/limit 1 weekly usage limit reached. It will reset in 5 days 10 hours.",
    ],
)
def test_the_forms_of_the_vendors_park(shared_with: Share, text: str) -> None:
    session = shared_with(NO_JITTER)
    park(session, next_limit(session, text) if text.startswith("/") else f"/say {text}")
    assert session.meta()["limited"]["begun"] is False
    assert view(session)["badge"] == "limited"
