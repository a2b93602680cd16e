"""What an agent does becomes events: in order, none lost, as it came."""

from __future__ import annotations

import json
import time

from tests.support.live import Live, Session
from tests.support.wait import wait_until


def test_every_kind_of_update(live: Live) -> None:
    session = live.new()
    session.tell(
        "/think hm\n/say words\n/tool Read kind=read path=a.txt id=c1 contents\n"
        "/tool-fail Build id=c2 broken\n/plan look;leap\n/usage 100 20 0.25\n/commands\n/mode code\n"
        "/title A fine title\n/unknown cloud_update\n/ext _echo/noise\n/edit a.txt new words"
    )
    assert {event.type for event in session.events()} == {
        "user_message",
        "thought",
        "agent_message",
        "tool_call",
        "tool_result",
        "plan",
        "usage",
        "system",
        "done",
    }
    turns = {event.turn_id for event in session.events()}
    assert len(turns) == 1
    for event in session.events():
        assert event.content["schema"] == "agh.session.event.v1"
        assert event.content["type"] == event.type
        assert event.content["session_id"] == session.meta()["acp_session_id"]
        assert event.type == "user_message" or event.content["raw"]
    results = {event.content["tool_call_id"]: event.content for event in session.events("tool_result")}
    assert (results["c1"]["tool_error"], results["c1"]["tool_result"]["content"]) == (False, "contents")
    assert (results["c2"]["tool_error"], results["c2"]["tool_result"]["error"]) == (True, "broken")
    calls = [event.content for event in session.events("tool_call") if event.content["tool_call_id"] == "c1"]
    assert calls[0]["tool_input"]["path"] == str(live.workspace / "a.txt")
    assert calls[0]["title"] == "Read"
    (edit,) = [value for value in results.values() if value["tool_result"].get("structured_patch")]
    assert edit["tool_result"]["structured_patch"][0]["newText"] == "new words"
    titles = [event.content["title"] for event in session.events("system")]
    assert [title.split(":")[0] for title in titles] == [
        "available_commands_update",
        "current_mode_update",
        "session_info_update",
        "cloud_update",
        "_echo/noise",
    ]
    unknown = session.events("system")[3].content["raw"]
    assert unknown == {"sessionUpdate": "cloud_update", "note": "an update of a kind that nobody knows"}
    session.check_log()


def test_usage_is_one_row_per_turn(live: Live) -> None:
    session = live.new()
    session.tell("/usage 100 20 0.25")
    session.tell("/usage 7 3 0.5")
    columns = "input_tokens, output_tokens, total_tokens"
    turns = [event.turn_id for event in session.events("done")]
    rows = session.fetch(f"SELECT turn_id, {columns} FROM token_usage ORDER BY timestamp, turn_id")
    assert sorted(rows) == sorted([(turns[0], 100, 20, 120), (turns[1], 7, 3, 10)])
    assert session.events("done")[1].content["usage"]["total_tokens"] == 10
    assert session.events("usage")[0].content["usage"]["cost_amount"] == 0.25


def test_the_row_of_a_turn_has_its_context_and_cost(live: Live) -> None:
    """One merged row per turn: what came in updates, and what came with the answer."""
    session = live.new()
    session.tell("/usage 100 20 0.25")
    ((used, size, cost),) = session.fetch("SELECT context_used, context_size, cost_amount FROM token_usage")
    assert used == 120
    assert size
    assert cost == 0.25


def test_a_title_is_shown(shared: Session) -> None:
    shared.tell("/title A fine title")
    wait_until(lambda: shared.meta()["title"] == "A fine title")
    assert "A fine title" in shared.live.agh("session", "list").stdout
    assert "A fine title" in shared.agh("status").stdout


def test_what_comes_after_the_answer_is_kept(live: Live) -> None:
    session = live.new()
    first = session.start_prompt("/say one\n/late 3 0.2", "-o", "text")
    out, _ = first.communicate(timeout=20)
    assert (first.returncode, out) == (0, b"one\n")
    session.wait_for_text("late 3 ")
    types = [(event.type, event.turn_id) for event in session.events("done", "agent_message")]
    turn = types[0][1]
    assert types == [("agent_message", turn), ("done", turn), *[("agent_message", turn)] * 3]
    assert session.tell("two") == "echo: two"
    session.check_log()
    messages = json.loads(session.agh("transcript", "-o", "json").stdout)["messages"]
    assert [message["content"] for message in messages if message["role"] == "user"] == [
        "/say one\n/late 3 0.2",
        "two",
    ]


def test_what_comes_between_turns_does_not_open_one(live: Live) -> None:
    session = live.new()
    session.tell("/say one\n/late 2 0.1")
    session.wait_for_text("late 2 ")
    wait_until(lambda: session.status()["phase"] == "idle")
    session.stop()
    history = json.loads(session.agh("history", "-o", "json").stdout)["turns"]
    assert [one["stop_reason"] for one in history if one["turn_id"]] == ["end_turn"]
    session.agh("resume")
    assert "prompt_interrupted" not in session.markers()
    assert session.count("error") == 0


def test_ten_thousand_chunks(shared: Session) -> None:
    started = time.monotonic()
    result = shared.prompt("/stream 10000", "-o", "text", timeout=100)
    print(f"10,000 chunks: {time.monotonic() - started:.2f} s")
    assert result.stdout == "".join(f"chunk {number} " for number in range(1, 10_001)) + "\n"
    turn_id = shared.events("done")[-1].turn_id
    texts = [event.content["text"] for event in shared.events("agent_message", turn=turn_id)]
    assert texts == [f"chunk {number} " for number in range(1, 10_001)]
    shared.check_log()


def test_odd_text_survives(shared: Session) -> None:
    text = 'NUL-free: é 😀 \u202e \x1b[31m \t "quoted" \\ </script>'
    assert shared.say(f"/say {text}") == text
    assert shared.events("agent_message")[-1].content["raw"]["content"]["type"] == "text"
