"""History that is told to an agent without memory: once, also when something dies in between."""

from __future__ import annotations

from tests.support.live import Live, Session
from tests.support.resume import HEADER, RECALL, WORDS, refused, restored


def forget(session: Session) -> None:
    """Resume with an agent that knows nothing of the session."""
    assert restored(session, "--on-resume not-found")["strategy"] == "inject_history"


def test_a_history_that_no_prompt_carried_is_told_after_the_next_resume(talked: Session) -> None:
    forget(talked)
    talked.kill_keeper()
    assert restored(talked)["strategy"] == "native_resume"
    first = talked.say(RECALL)
    assert first.startswith("SEEN 1 user texts: ")
    assert f"[USER]: {WORDS}\n" in first
    assert talked.say(RECALL).count(HEADER) == 1


def test_a_load_that_finds_only_the_untold_session_tells_it_too(talked: Session) -> None:
    forget(talked)
    talked.agh("stop")
    restored(talked, "--caps load")
    assert f"[USER]: {WORDS}\n" in talked.say(RECALL)
    assert talked.say(RECALL).count(HEADER) == 1


def test_a_history_that_was_told_is_not_told_after_the_next_resume(talked: Session) -> None:
    forget(talked)
    talked.say("the first prompt carries it")
    talked.kill_keeper()
    assert restored(talked)["strategy"] == "native_resume"
    reply = talked.say(RECALL)
    assert reply.startswith("SEEN 2 user texts: ")
    assert reply.count(HEADER) == 1
    assert talked.meta()["inject_history"] is False


def test_a_prompt_that_the_agent_refused_has_told_nothing(talked: Session) -> None:
    forget(talked)
    talked.prompt("/error -32603 not today", code=1)
    assert talked.say(RECALL).count(HEADER) == 2, "in the prompt that failed, and again"
    assert talked.say(RECALL).count(HEADER) == 2


def test_a_prompt_that_died_with_its_keeper_has_told_nothing(talked: Session) -> None:
    forget(talked)
    talked.send("/sleep 60")
    talked.kill_keeper()
    restored(talked)
    reply = talked.say(RECALL)
    assert f"[USER]: {WORDS}\n" in reply
    assert "[USER]: /sleep 60" in reply
    assert talked.meta()["inject_history"] is False


def test_a_cancelled_prompt_was_accepted(talked: Session) -> None:
    forget(talked)
    talked.send("/sleep 60")
    talked.agh("cancel")
    talked.agh("wait", "--until", "idle", "--timeout", "20s")
    assert talked.say(RECALL).count(HEADER) == 1


def test_the_log_has_the_prompt_and_not_what_was_put_around_it(talked: Session) -> None:
    forget(talked)
    talked.say("go on")
    assert [event.content["text"] for event in talked.events("user_message")] == [WORDS, "go on"]
    assert [text for _, text in talked.inputs()] == [WORDS, "go on"]


def test_the_budget_is_a_setting_and_what_was_left_out_is_said(live: Live) -> None:
    live.configure("[session]\nhistory_budget = 150\n")
    session = live.new()
    session.prompt("old " * 50)
    session.prompt("young")
    session.agh("stop")
    forget(session)
    reply = session.say(RECALL)
    assert "[USER]: young\n[ASSISTANT]: echo: young\n" in reply
    assert "old old" not in reply
    assert "2 earlier entries are left out" in reply


def test_tools_are_in_the_history(live: Live) -> None:
    session = live.new()
    session.prompt("/think hard\n/tool grep kind=search three lines\n/say found it")
    session.agh("stop")
    forget(session)
    reply = session.say(RECALL)
    lines = reply[
        reply.index("=== EXECUTION HISTORY ===") : reply.index("=== CURRENT REQUEST ===")
    ].splitlines()
    assert [line.partition("]")[0] + "]" for line in lines if line.startswith("[")] == [
        "[USER]",
        "[TOOL CALL: search]",
        "[TOOL RESULT: search]",
        "[ASSISTANT]",
    ]
    assert "[TOOL RESULT: search] three lines" in lines
    assert "hard" not in "\n".join(line for line in lines if not line.startswith(("[USER]", "/")))


def test_a_resume_that_failed_after_a_fresh_start_leaves_no_history_to_tell(talked: Session) -> None:
    talked.agh("set", "model=enormous")
    refused(talked, "--on-resume not-found", code=2)
    talked.agh("set", "model=large")
    assert restored(talked)["strategy"] == "native_resume"
    assert HEADER not in talked.say(RECALL), "the agent has its own memory"
