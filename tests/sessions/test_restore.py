"""The restore ladder: what an agent can do × how it answers → the way back, what is told, what is kept.

Each row is a stopped session of one turn that is resumed with a real agent process. docs/spec.md has the
contract: context that was lost is always said; any failure but "impossible" and "gone" changes nothing.
"""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.support.live import Live, Session
from tests.support.resume import (
    HEADER,
    RECALL,
    SEEN,
    WORDS,
    define,
    edit_meta,
    refused,
    restored,
    resume,
    wait_until_gone,
)
from tests.support.wait import wait_until

CAPS = {"resume": "--caps resume,list", "load": "--caps load,list", "neither": "--caps list"}
KEPT, LOST, FAILED = "kept", "lost", "failed"

TABLE = {
    # how the agent answers: with only session/resume, with only session/load
    "ok": (KEPT, KEPT),
    "not-found": (LOST, LOST),
    "not-found-text": (LOST, LOST),
    "method-not-found": (LOST, LOST),
    "unclear-missing": (LOST, LOST),
    "unclear-listed": (FAILED, FAILED),
    "error": (FAILED, FAILED),
    "null": (KEPT, KEPT),
    "empty": (KEPT, LOST),  # a resume has nothing to replay: this lie cannot be seen
    "late": (KEPT, KEPT),
    "die": (FAILED, FAILED),
    "hang": (FAILED, FAILED),
}
ENDS = [
    (way, outcome, end)
    for outcome, (by_resume, by_load) in TABLE.items()
    for way, end in (("resume", by_resume), ("load", by_load), ("neither", LOST))
    if way != "neither" or outcome == "ok"  # the agent refuses a method that it does not offer, however set
]
FAILURES = {  # these change nothing, so that one session is enough
    way: [outcome for row, outcome, end in ENDS if (row, end) == (way, FAILED)] for way in ("resume", "load")
}
ROWS = [
    *(pytest.param(way, [answer], end, id=f"{way}-{answer}") for way, answer, end in ENDS if end != FAILED),
    *(pytest.param(way, outcomes, FAILED, id=f"{way}-{FAILED}") for way, outcomes in FAILURES.items()),
]


@pytest.mark.parametrize(("way", "outcomes", "end"), ROWS)
def test_the_ladder(talked: Session, way: str, outcomes: list[str], end: str) -> None:
    for outcome in outcomes:
        options = f"{CAPS[way]} --on-resume {outcome} --on-load {outcome}"
        if outcome == "hang":
            talked.live.configure('[timeouts]\nload = "1s"\n')
        if outcome == "late":  # its second burst comes 0.1 s after the first, which a busy machine stretches
            define(talked.live, "echo", quiet_after_load=0.6)
        {KEPT: check_kept, LOST: check_lost, FAILED: check_failed}[end](talked, way, options)
    if end == FAILED:
        talked.live.configure("")
        assert restored(talked)["strategy"] == "native_resume"
        assert talked.say(RECALL) == SEEN


def test_an_adapter_can_force_a_step(talked: Session) -> None:
    define(talked.live, "echo", restore_force=["native_load"])
    document = json.loads(resume(talked, "--caps resume,load,list").stdout)
    assert document["restore"]["strategy"] == "native_load"
    assert talked.say(RECALL) == SEEN


def test_a_forced_step_is_tried_though_the_agent_does_not_offer_it(talked: Session) -> None:
    define(talked.live, "echo", restore_force=["native_resume"])
    restore = json.loads(resume(talked, "--caps list").stdout)["restore"]
    assert restore["strategy"] == "inject_history"
    assert "native_resume: the agent advertises session/resume but does not support it" in restore["reason"]
    assert "native_load: the agent does not offer it" in restore["reason"]


def test_a_forced_step_comes_first_and_may_be_impossible(talked: Session) -> None:
    define(talked.live, "echo", restore_force=["inject_history"])
    assert json.loads(resume(talked).stdout)["restore"]["strategy"] == "inject_history"
    talked.stop()
    define(talked.live, "echo", restore_force=["native_fork", "cli_resume"])
    assert json.loads(resume(talked).stdout)["restore"]["strategy"] == "native_resume"


def check_kept(session: Session, way: str, options: str) -> None:
    before, events = session.meta(), session.events()
    result = resume(session, options)
    document = json.loads(result.stdout)
    assert document["restore"]["strategy"] == f"native_{way}"
    assert document["restore"]["context_lost"] is False
    assert document["session"]["state"] == "active"
    assert result.stderr == f"resumed by native_{way}: the agent remembers the session\n"
    new = session.events()[len(events) :]
    assert [one.type for one in new] == ["session_resumed", "session_attached"]
    notice = new[0].content
    assert notice["strategy"] == f"native_{way}"
    assert notice["reason"]
    assert notice["acp_session_id"] == notice["previous_acp_session_id"] == before["acp_session_id"]
    meta = session.meta()
    assert (meta["restore"]["strategy"], meta["restore"]["reason"]) == (notice["strategy"], notice["reason"])
    assert meta["acp_session_id"] == before["acp_session_id"]
    assert meta["acp_session_ids"] == before["acp_session_ids"]
    if "late" in options:
        time.sleep(0.3)  # what the agent sends now leaves no trace that could be awaited
    turn = session.turn(RECALL)["turn_id"]
    if "--on-resume empty" not in options:
        assert f'"{WORDS}" | ' in session.text(turn), "the agent knows the conversation"
    assert HEADER not in session.text(turn)
    chat = ("user_message", "agent_message", "tool_call", "system")
    assert [event for event in session.events(*chat) if event.turn_id != turn] == [
        event for event in events if event.type in chat
    ], "a replay is not stored again"
    assert session.markers() == []


def check_lost(session: Session, way: str, options: str) -> None:
    before, events = session.meta(), session.events()
    result = resume(session, options)
    document = json.loads(result.stdout)
    assert document["restore"]["strategy"] == "inject_history"
    assert document["restore"]["context_lost"] is True
    assert document["session"]["state"] == "active"
    assert result.stderr.startswith("warning: the agent lost its memory of this session (")
    assert result.stderr.endswith(
        "resumed by inject_history: the agent gets the history with the next prompt\n"
    )
    new = session.events()[len(events) :]
    assert [one.type for one in new] == ["transcript_marker.created", "session_resumed", "session_attached"]
    assert new[0].content["kind"] == "context_reset"
    assert new[0].content["severity"] == "warning"
    assert new[0].turn_id == ""
    notice = new[1].content
    assert notice["strategy"] == "inject_history"
    assert notice["reason"] in result.stderr
    assert notice["previous_acp_session_id"] == before["acp_session_id"]
    assert notice["acp_session_id"] != before["acp_session_id"]
    meta = session.meta()
    assert meta["restore"]["strategy"] == "inject_history"
    assert meta["acp_session_id"] == notice["acp_session_id"]
    assert meta["acp_session_ids"] == [*before["acp_session_ids"], notice["acp_session_id"]]
    if way == "neither":
        for step in ("native_resume", "native_load"):
            assert f"{step}: the agent does not offer it" in notice["reason"], "it was not asked"
    first = session.say(RECALL)
    assert first.startswith("SEEN 1 user texts: ")
    assert first.count(HEADER) == 1
    assert f"[USER]: {WORDS}\n[ASSISTANT]: echo: {WORDS}\n" in first
    second = session.say(RECALL)
    assert second.startswith("SEEN 2 user texts: ")
    assert second.count(HEADER) == 1, "the history is told once"
    assert [event.content["text"] for event in session.events("user_message")] == [WORDS, RECALL, RECALL]
    assert session.markers() == ["context_reset"]


def check_failed(session: Session, way: str, options: str) -> None:
    before, events = session.meta(), session.events()
    error = refused(session, options)
    assert error["code"] == "restore_failed"
    assert "--fresh" in error["hint"]
    assert session.id in error["message"]
    check_untouched(session, before, events)
    assert session.meta()["failure"]["kind"] in ("load_session_failure", "transport_failure", "timeout")


def check_untouched(session: Session, before: dict[str, Any], events: list[Any]) -> None:
    """Check that a failed resume leaves the session stopped and restorable, with only its end in the log."""
    meta = session.meta()
    assert (meta["state"], meta["stop_reason"]) == ("stopped", "error")
    for key in ("agent_name", "command", "acp_session_id", "acp_session_ids", "turns", "model", "mode"):
        assert meta[key] == before[key], key
    assert {event.type for event in session.events()[len(events) :]} <= {"session_stopped"}
    assert session.markers() == []


def test_a_method_that_is_advertised_and_not_there_moves_one_step_down(talked: Session) -> None:
    assert restored(talked, "--on-resume method-not-found")["strategy"] == "native_load"
    assert talked.say(RECALL) == SEEN
    assert talked.markers() == []


def test_a_token_that_is_gone_is_not_tried_again_by_another_method(talked: Session) -> None:
    restore = restored(talked, "--on-resume not-found")
    assert restore["strategy"] == "inject_history"
    assert "native_load" not in restore["reason"]


def test_an_unclear_error_of_an_agent_that_cannot_list_is_a_failure(talked: Session) -> None:
    token = talked.meta()["acp_session_id"]
    assert refused(talked, "--caps resume --on-resume unclear-missing")["code"] == "restore_failed"
    assert talked.meta()["acp_session_id"] == token


def test_people_are_told_what_to_do_about_a_failure(talked: Session) -> None:
    result = talked.agh("resume", code=1, env={"AGH_ECHO_OPTIONS": "--on-resume error"})
    assert result.stdout == ""
    said, hint = result.stderr.splitlines()
    assert said.startswith(f"agh: session {talked.id}: ")
    assert "database is locked" in said
    advice = "hint: try again, or give up the old conversation: "
    assert hint == f"{advice}agh session resume {talked.id} --fresh"
    wait_until_gone(talked)


def test_a_way_out_of_a_failure_is_a_fresh_start(talked: Session) -> None:
    refused(talked, "--on-resume error")
    assert restored(talked, "--on-resume error", "--fresh")["strategy"] == "inject_history"
    assert WORDS in talked.say(RECALL)


def test_an_agent_that_wants_a_log_in_changes_nothing(talked: Session) -> None:
    before, events = talked.meta(), talked.events()
    error = refused(talked, "--auth-required", code=9)
    assert error["code"] == "agent_needs_login"
    assert error["details"]["methods"] == ["echo-login (agent): Echo log-in"]
    check_untouched(talked, before, events)
    assert talked.meta()["failure"]["kind"] == "provider_auth_failure"
    assert restored(talked)["strategy"] == "native_resume"


def test_a_prompt_that_resumes_says_that_the_memory_is_gone(talked: Session) -> None:
    result = talked.prompt(RECALL, "-o", "text", env={"AGH_ECHO_OPTIONS": "--on-resume not-found"})
    assert "the agent lost its memory" in result.stderr
    assert HEADER in result.stdout
    assert talked.markers() == ["context_reset"]


def test_a_prompt_whose_resume_fails_is_not_taken(talked: Session) -> None:
    inputs = talked.inputs()
    error = talked.error("prompt", "go on", code=1, env={"AGH_ECHO_OPTIONS": "--on-resume error"})
    assert error["code"] == "restore_failed"
    assert talked.inputs() == inputs
    wait_until_gone(talked)


def test_required_context_is_not_replaced_by_less(talked: Session) -> None:
    for options, flags in (
        ("--caps none", []),
        ("--on-resume not-found", []),
        ("--caps load --on-load empty", []),
        ("", ["--fresh"]),
    ):
        before, events = talked.meta(), talked.events()
        error = refused(talked, options, "--require-context", *flags)
        assert error["code"] == "context_lost", (options, flags)
        check_untouched(talked, before, events)
    assert restored(talked, "", "--require-context")["strategy"] == "native_resume"
    assert talked.say(RECALL) == SEEN


def test_every_session_id_of_the_agent_stays(talked: Session) -> None:
    ids = [talked.meta()["acp_session_id"]]
    for options, flags in (("--caps none", []), ("", ["--fresh"]), ("--on-resume not-found", [])):
        restored(talked, options, *flags)
        ids.append(talked.meta()["acp_session_id"])
        talked.agh("stop")
    assert len(set(ids)) == 4
    assert talked.meta()["acp_session_ids"] == ids
    assert talked.markers() == ["context_reset"] * 3


def test_a_fresh_start_says_what_it_left(talked: Session) -> None:
    token = talked.meta()["acp_session_id"]
    restored(talked, "", "--fresh")
    (event,) = talked.events("session_resumed")
    assert event.content["previous_acp_session_id"] == token


@pytest.mark.parametrize("options", ["--caps resume", "--caps load"])
def test_the_place_and_the_servers_are_sent_again(talked: Session, options: str) -> None:
    server = {"name": "files", "command": "/bin/true", "args": [], "env": []}
    edit_meta(talked, mcp_servers=[server], model="large", mode="code")
    resume(talked, options, cwd=talked.live.home)
    reply = talked.say("/cwd\n/settings")
    assert f"cwd: {talked.live.workspace} (process: {talked.live.workspace})" in reply
    assert "mode=code model=large mcp=files" in reply


@pytest.mark.parametrize("options", ["--caps none", "--caps load --on-load empty"])
def test_a_session_killed_in_its_first_turn_does_not_lose_it_silently(live: Live, options: str) -> None:
    session = live.new()
    session.send("/say working\n/sleep 60")
    wait_until(lambda: session.text() == "working")
    session.kill_keeper()
    restore = restored(session, options)
    assert restore["context_lost"] is True
    assert session.markers().count("context_reset") == 1
    assert "[ASSISTANT]: working" in session.say(RECALL)


def test_a_replay_with_tools_is_not_stored_again(live: Live) -> None:
    session = live.new()
    session.prompt("/think hard\n/plan one;two\n/tool grep kind=search id=call-7 three lines\n/say found it")
    session.agh("stop")
    before = session.events()
    assert restored(session, "--caps load")["strategy"] == "native_load"
    session.prompt("go on")
    added = session.events()[len(before) :]
    assert {row.type for row in added} == {
        *("session_resumed", "session_attached", "user_message", "agent_message", "usage", "done")
    }
    assert "".join(row.content["text"] for row in added if row.type == "agent_message") == "echo: go on"


def test_a_session_that_was_never_prompted_has_nothing_to_lose(live: Live) -> None:
    session = live.new("--caps", "load")
    session.agh("stop")
    restore = restored(session)
    assert (restore["strategy"], restore["context_lost"]) == ("native_load", False)
    assert session.markers() == []
    assert session.say(RECALL) == f'SEEN 1 user texts: "{RECALL}"'
