"""`agh session fork`: a new session from the history of another, which is not touched."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.files import tree
from tests.support.live import Live, Session
from tests.support.resume import HEADER, RECALL, SEEN, WORDS, define, restored, wait_until_gone


def fork(origin: Session, *args: object, options: str = "") -> tuple[Session, str]:
    """Return the fork, and what was said of it on stderr."""
    result = origin.agh("fork", *args, "-o", "json", env={"AGH_ECHO_OPTIONS": options})
    return origin.live.session(json.loads(result.stdout)["session"]["id"]), result.stderr


def copied(session: Session, until: int) -> list[Any]:
    return session.fetch(
        "SELECT sequence, turn_id, type, agent_name, content, timestamp FROM events "
        "WHERE sequence <= ? ORDER BY sequence",
        until,
    )


def test_the_agent_forks_its_own_memory(talked: Session) -> None:
    origin, before, last = talked.meta(), tree(talked.directory), len(talked.events())
    branch, said = fork(talked, "--name", "branch")
    assert tree(talked.directory) == before, "the origin is not touched"
    assert said == "resumed by native_fork: the agent remembers the session\n"
    meta = branch.meta()
    assert (meta["state"], meta["name"]) == ("active", "branch")
    assert meta["acp_session_id"] != origin["acp_session_id"]
    assert meta["forked_from"] == {"session_id": talked.id, "sequence": last}
    assert copied(branch, last) == copied(talked, last)
    assert [event.type for event in branch.events()[last:]] == ["session_resumed"]
    assert branch.say(RECALL) == SEEN
    branch.check_log()
    assert restored(talked)["strategy"] == "native_resume"
    assert talked.say("what did I say?") == SEEN, "the origin knows nothing of its fork"


def test_a_part_of_the_history_is_told(talked: Session) -> None:
    before = tree(talked.directory)
    branch, said = fork(talked, "--at", 1)
    assert tree(talked.directory) == before
    assert said == f"forked from {talked.id}; the agent gets the history with the next prompt\n"
    assert branch.meta()["forked_from"]["sequence"] == 1
    assert branch.meta()["acp_session_id"] != talked.meta()["acp_session_id"]
    assert copied(branch, 1) == copied(talked, 1)
    assert branch.count("done") == 0, "the turn was cut off"
    assert branch.count("error") == 1, "and closed"
    assert branch.markers() == ["context_reset"]
    first = branch.say(RECALL)
    assert first.startswith("SEEN 1 user texts: ")
    assert f"[USER]: {WORDS}" in first
    assert f"echo: {WORDS}" not in first, "what came later is not known"
    assert branch.say(RECALL).count(HEADER) == 1
    branch.check_log()


def fork_at_first_turn(origin: Session, where: str, options: str = "") -> tuple[Session, str]:
    """Fork after the first of two turns, with an agent that is said to take the message at this place."""
    origin.say("later")
    origin.agh("stop")
    define(origin.live, "echo", *options.split(), **{"session_meta.fork_at": where})
    return fork(origin, "--at", origin.events("done")[0].sequence)


def test_an_agent_that_can_forks_its_memory_at_a_message(talked: Session) -> None:
    branch, said = fork_at_first_turn(talked, "jetbrains.air.fork")
    assert said == "resumed by native_fork: the agent remembers the session\n"
    assert branch.markers() == []
    assert branch.say(RECALL) == SEEN, "what came later is not known"
    branch.check_log()


@pytest.mark.parametrize(
    ("where", "options"),
    [("nobody.looks.here", ""), ("jetbrains.air.fork", "--caps fork,resume,list")],
    ids=["it is ignored", "it cannot be checked"],
)
def test_a_fork_that_may_have_more_is_not_used(talked: Session, where: str, options: str) -> None:
    branch, said = fork_at_first_turn(talked, where, options)
    assert "the agent gets the history" in said
    first = branch.say(RECALL)
    assert first.startswith("SEEN 1 user texts: ") and f"[USER]: {WORDS}" in first
    assert "later" not in first


def test_a_fork_in_the_middle_of_a_turn_is_told(talked: Session) -> None:
    talked.say("/say one\n/tool grep\n/say two")
    talked.agh("stop")
    define(talked.live, "echo", **{"session_meta.fork_at": "jetbrains.air.fork"})
    _, said = fork(talked, "--at", talked.events("tool_call")[0].sequence)
    assert "the agent gets the history" in said


def test_up_to_the_last_event_is_the_whole(talked: Session) -> None:
    _, said = fork(talked, "--at", len(talked.events()))
    assert said == "resumed by native_fork: the agent remembers the session\n"


@pytest.mark.parametrize("options", ["--caps resume,load,list", "--caps none"])
def test_an_agent_that_cannot_fork_is_told(talked: Session, options: str) -> None:
    branch, said = fork(talked, options=options)
    assert said == f"forked from {talked.id}; the agent gets the history with the next prompt\n"
    assert branch.markers() == ["context_reset"]
    assert branch.meta()["acp_session_id"] != talked.meta()["acp_session_id"], "never two in one conversation"
    assert f"[ASSISTANT]: echo: {WORDS}" in branch.say(RECALL)


def test_a_fork_goes_on_by_itself(talked: Session) -> None:
    branch, _ = fork(talked)
    token = branch.meta()["acp_session_id"]
    branch.say("only here")
    branch.agh("stop")
    restore = restored(branch)
    assert (restore["strategy"], restore["context_lost"]) == ("native_resume", False)
    assert branch.meta()["acp_session_id"] == token
    assert branch.say(RECALL).startswith("SEEN 3 user texts: ")


def test_a_live_origin_goes_on(live: Live) -> None:
    origin = live.new(args=("--model", "large"))
    origin.say("hello")
    turn, agent = origin.send("/sleep 60"), origin.agent
    branch, _ = fork(origin)
    assert branch.agent != agent
    assert branch.say("/settings") == "mode=ask model=large mcp="
    hello = origin.hello()
    assert (hello["agent_pid"], hello["turn_id"]) == (agent, turn)
    assert origin.count("error", "session_resumed") == 0
    assert branch.count("error") == 1, "the copy of the running turn is closed"
    branch.check_log()


@pytest.mark.parametrize("at", [0, -1, 10_000, "x"])
def test_a_place_that_is_not_there_is_refused(talked: Session, at: object) -> None:
    error = talked.error("fork", f"--at={at}", code=2)
    assert "--at" in error["message"]
    assert len(talked.live.sessions()) == 1


def test_a_name_that_is_taken_is_refused(talked: Session) -> None:
    talked.agh("fork", "--name", "branch")
    assert talked.error("fork", "--name", "branch", code=6)["code"] == "name_taken"
    assert len(talked.live.sessions()) == 2


def test_what_is_left_of_a_fork_that_failed_never_joins_the_origin(talked: Session) -> None:
    talked.error("fork", code=9, env={"AGH_ECHO_OPTIONS": "--auth-required"})
    wait_until_gone(talked)
    for left in talked.live.sessions():
        if left.id != talked.id:
            restored(left)
            assert left.meta()["acp_session_id"] != talked.meta()["acp_session_id"]


def test_a_fork_of_a_session_whose_history_was_not_yet_told_tells_it(talked: Session) -> None:
    restored(talked, "--on-resume not-found")
    branch, _ = fork(talked)
    assert f"[USER]: {WORDS}" in branch.say(RECALL)
