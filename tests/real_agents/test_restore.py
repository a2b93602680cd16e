"""A conversation comes back. The model is the witness: what counts is what it is sent after the resume."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.real_agents.install import need
from tests.real_agents.standin import Standin
from tests.real_agents.steps import (
    LIMIT,
    SLOW,
    UNKNOWN,
    begin_slow,
    delete_store,
    kill_keeper,
    name_unknown,
    resume,
    say,
    start,
    stop,
    tellings,
    the_request,
)
from tests.support.live import GONE_WITHIN, Live, Session
from tests.support.processes import carrying, kill
from tests.support.wait import wait_until

pytestmark = [pytest.mark.real_agents, pytest.mark.timeout(400)]

EVERY = ("opencode", "codex", "qwen")
ARGV = {"opencode": ["opencode", "acp"], "codex": ["codex-acp"], "qwen": ["qwen", "--acp"]}
HOW_WE_KNOW = {
    "opencode": "does not list the session",
    "codex": "Resource not found (code -32002)",
    "qwen": "said it had loaded the session but replayed nothing",
}


def only_load(live: Live, agent: str) -> None:
    """Define the agent again, without the step that would be taken first."""
    folder = live.home / "agents"
    live.home.mkdir(mode=0o700)
    folder.mkdir(mode=0o700)
    (folder / f"{agent}.toml").write_text(f'argv = {ARGV[agent]}\nrestore_skip = ["native_resume"]\n')


def resumptions(session: Session) -> list[str]:
    return [event.content["strategy"] for event in session.events("session_resumed")]


@pytest.mark.parametrize(
    ("agent", "strategy"),
    [
        ("opencode", "native_resume"),
        ("opencode", "native_load"),
        ("codex", "native_resume"),
        ("codex", "native_load"),
        ("qwen", "native_load"),
    ],
)
def test_a_killed_keeper(live: Live, standin: Standin, agent: str, strategy: str) -> None:
    if strategy == "native_load" and agent != "qwen":  # which advertises a resume that it does not have
        only_load(live, agent)
    session = start(live, agent)
    assert say(session, "alpha") == 'SEEN 1 user texts: "alpha"'
    turn_id = begin_slow(session, "beta")
    token = session.meta()["acp_session_id"]
    kill_keeper(session)
    status = session.status()
    assert (status["needs_resume"], status["resume_reason"]) == (True, "agent_not_running")

    restored = resume(session)
    assert (restored["strategy"], restored["context_lost"]) == (strategy, False)
    (event,) = session.events("session_resumed")
    assert event.content["strategy"] == session.meta()["restore"]["strategy"] == strategy
    assert event.content["acp_session_id"] == event.content["previous_acp_session_id"] == token
    assert session.markers() == ["prompt_interrupted"]
    assert session.inputs() == [("sent", "alpha"), ("interrupted", f"beta {SLOW}")]
    (end,) = session.events("done", "error", turn=turn_id)
    assert (end.type, end.content["stop_reason"]) == ("error", "interrupted")

    say(session, "gamma")
    assert the_request(standin, "gamma").texts == ["alpha", f"beta {SLOW}", "gamma"]
    assert "SEEN 1 user texts" in str(the_request(standin, "gamma").body)
    assert the_request(standin, "beta").state == "cut off"  # the only one: it was not sent again
    assert [event.content["text"] for event in session.events("user_message")] == [
        "alpha",
        f"beta {SLOW}",
        "gamma",
    ]
    assert session.text().count("SEEN 1 user texts") == 1, "a replay was stored"
    session.check_log()
    stop(session)


@pytest.mark.parametrize("agent", EVERY)
def test_a_killed_agent(live: Live, standin: Standin, agent: str) -> None:
    """The last of its processes, which for some is the child of a launcher."""
    session = start(live, agent)
    say(session, "alpha")
    begin_slow(session, "beta")
    cookie = session.cookie
    kill(max(process.pid for process in carrying(cookie)))
    wait_until(lambda: not session.is_live(), LIMIT)
    meta = session.meta()
    assert (meta["stop_reason"], meta["failure"]["kind"]) == ("agent_crashed", "process_exit")
    assert carrying(cookie) == []
    say(session, "gamma")
    assert the_request(standin, "gamma").texts == ["alpha", f"beta {SLOW}", "gamma"]
    session.check_log()
    stop(session)


@pytest.mark.parametrize("forget", [name_unknown, delete_store])
@pytest.mark.parametrize("agent", EVERY)
def test_the_agent_has_forgotten(
    live: Live,
    standin: Standin,
    agent: str,
    forget: Callable[[Session], str],
) -> None:
    """It is told the history, once, and so is the user that it had to be."""
    session = start(live, agent)
    say(session, "alpha")
    stop(session)
    token = forget(session)

    restored = resume(session)
    assert (restored["strategy"], restored["context_lost"]) == ("inject_history", True)
    assert HOW_WE_KNOW[agent] in restored["reason"]
    assert session.markers() == ["context_reset"]
    (event,) = session.events("session_resumed")
    assert event.content["strategy"] == "inject_history"
    assert event.content["previous_acp_session_id"] == token
    assert event.content["acp_session_id"] == session.meta()["acp_session_id"] != token
    assert standin.conversation("beta") == []

    say(session, "beta")
    (text,) = the_request(standin, "beta").texts
    assert '[USER]: alpha\n[ASSISTANT]: SEEN 1 user texts: "alpha"\n' in text
    assert "=== CURRENT REQUEST ===\nbeta\n" in text
    say(session, "gamma")
    assert the_request(standin, "gamma").texts == [text, "gamma"]

    stop(session)
    say(session, "delta")
    assert the_request(standin, "delta").texts == [text, "gamma", "delta"]
    assert resumptions(session) == ["inject_history", "native_load" if agent == "qwen" else "native_resume"]
    assert session.markers() == ["context_reset"]
    assert [event.content["text"] for event in session.events("user_message")] == [
        "alpha",
        "beta",
        "gamma",
        "delta",
    ]
    session.check_log()
    stop(session)


@pytest.mark.parametrize("agent", ["codex", "qwen"])
def test_lost_context_can_be_refused(live: Live, standin: Standin, agent: str) -> None:
    session = start(live, agent)
    say(session, "alpha")
    stop(session)
    name_unknown(session)
    error = session.error("resume", "--require-context", code=1, timeout=LIMIT)
    assert error["code"] == "context_lost"
    assert session.meta()["acp_session_id"] == UNKNOWN[agent]
    wait_until(lambda: not live.processes(), GONE_WITHIN)
    assert session.meta()["state"] == "stopped"
    assert "context_reset" not in session.markers()
    assert resume(session)["strategy"] == "inject_history"
    say(session, "beta")
    assert len(tellings(the_request(standin, "beta"))) == 1
    stop(session)


@pytest.mark.parametrize("agent", EVERY)
def test_history_told_with_a_cancelled_prompt(live: Live, standin: Standin, agent: str) -> None:
    """The agent keeps what it was told, so it is not told again; and it is not lost."""
    session = start(live, agent)
    say(session, "alpha")
    stop(session)
    name_unknown(session)
    turn_id = begin_slow(session, "beta")
    session.agh("cancel")
    session.agh("wait", "--until", "idle", "--timeout", "30s")
    assert session.events("done", turn=turn_id)[0].content["stop_reason"] == "cancelled"
    say(session, "gamma")
    request = the_request(standin, "gamma")
    assert tellings(request) == request.texts[:1]
    assert "[USER]: alpha\n" in request.texts[0]
    assert request.texts[1:] == ["gamma"]
    stop(session)


@pytest.mark.parametrize("agent", EVERY)
def test_history_told_with_a_refused_prompt(live: Live, standin: Standin, agent: str) -> None:
    """Whether the agent kept it cannot be known: better twice than never."""
    session = start(live, agent)
    say(session, "alpha")
    stop(session)
    name_unknown(session)
    session.prompt("beta [fail 400]", code=1, timeout=LIMIT)
    assert the_request(standin, "beta").state == "refused"
    say(session, "gamma")
    told = tellings(the_request(standin, "gamma"))
    assert told
    assert all("[USER]: alpha\n" in text for text in told)
    assert session.markers() == ["context_reset"]
    stop(session)


@pytest.mark.parametrize("agent", EVERY)
def test_history_that_was_being_answered_is_not_told_again(live: Live, standin: Standin, agent: str) -> None:
    session = start(live, agent)
    say(session, "alpha")
    stop(session)
    name_unknown(session)
    begin_slow(session, "beta")
    kill_keeper(session)
    say(session, "gamma")
    assert len(tellings(the_request(standin, "gamma"))) == 1


@pytest.mark.parametrize("agent", EVERY)
def test_a_first_turn_that_was_interrupted_is_history(live: Live, standin: Standin, agent: str) -> None:
    session = start(live, agent)
    begin_slow(session, "alpha")
    kill_keeper(session)
    name_unknown(session)
    restored = resume(session)
    say(session, "beta")
    assert (restored["strategy"], restored["context_lost"]) == ("inject_history", True)
    assert "context_reset" in session.markers()
    assert "[USER]: alpha" in the_request(standin, "beta").texts[0]
    stop(session)


def test_another_agent_takes_over(live: Live, standin: Standin) -> None:
    need("opencode", "codex")
    session = start(live, "opencode")
    say(session, "alpha")
    stop(session)
    restored = resume(session, "--agent", "codex")
    assert (restored["strategy"], restored["context_lost"]) == ("inject_history", True)
    assert session.meta()["agent_name"] == "codex"
    assert session.markers() == ["context_reset"]
    say(session, "beta")
    request = the_request(standin, "beta")
    assert request.path == "/v1/responses"
    (text,) = request.texts
    assert '[USER]: alpha\n[ASSISTANT]: SEEN 1 user texts: "alpha"\n' in text
    stop(session)
    say(session, "gamma")
    assert the_request(standin, "gamma").texts == [text, "gamma"]
    assert resumptions(session) == ["inject_history", "native_resume"]
    assert session.markers() == ["context_reset"]
    speakers = session.fetch("SELECT agent_name FROM events WHERE type = 'agent_message' ORDER BY sequence")
    assert list(dict.fromkeys(name for (name,) in speakers)) == ["opencode", "codex"]
    session.check_log()
    stop(session)


def test_a_fresh_start_says_what_it_left(live: Live, standin: Standin) -> None:
    session = start(live, "codex")
    say(session, "alpha")
    token = session.meta()["acp_session_id"]
    stop(session)
    assert resume(session, "--fresh")["strategy"] == "inject_history"
    say(session, "beta")
    assert len(tellings(the_request(standin, "beta"))) == 1
    assert session.events("session_resumed")[0].content["previous_acp_session_id"] == token
    stop(session)


@pytest.mark.parametrize(("agent", "strategy"), [("opencode", "native_fork"), ("codex", "inject_history")])
def test_a_fork(live: Live, standin: Standin, agent: str, strategy: str) -> None:
    """It knows what was before; neither knows what the other is told later; a replay is not stored."""
    session = start(live, agent)
    say(session, "alpha")
    fork = live.session(session.agh("fork", timeout=LIMIT).stdout.strip())
    assert resumptions(fork) == [strategy]
    say(fork, "beta")
    say(session, "gamma")
    in_fork, in_origin = the_request(standin, "beta"), the_request(standin, "gamma")
    assert in_origin.texts == ["alpha", "gamma"]
    assert "alpha" in in_fork.texts[0]
    assert len(tellings(in_fork)) == (strategy == "inject_history")
    assert fork.text().count('SEEN 1 user texts: "alpha"') == 1
    assert fork.meta()["acp_session_id"] != session.meta()["acp_session_id"]
    session.agh("stop")
    stop(fork)


def test_choices_hold_after_a_restore(live: Live, standin: Standin) -> None:
    chosen = ("--model", "gpt-5.4", "--mode", "full-access", "--option", "reasoning_effort=low")
    session = start(live, "codex", *chosen)
    say(session, "alpha")
    begin_slow(session, "beta")
    kill_keeper(session)
    say(session, "gamma")
    before, after = the_request(standin, "alpha").body, the_request(standin, "gamma").body
    for body in (before, after):
        assert body["model"] == "gpt-5.4"
        assert body["reasoning"]["effort"] == "low"
    stop(session)
