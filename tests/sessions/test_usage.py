"""What sessions use: per turn, from sums that agents report; added up as asked; unknown is not nothing."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.support.live import Live
from tests.support.terminal import open_terminal


def usage(live: Live, *args: object) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(live.agh("session", "usage", *args, "-o", "json").stdout)[
        "usage"
    ]
    return found


def test_sums_become_figures_of_a_turn(live: Live) -> None:
    session = live.new()
    session.tell("/usage 100 20 0.5")
    session.tell("/usage 50 5 0.25\n/sleep 0.05\n/usage 60 6 0.75")
    session.tell("/say nothing to pay")
    rows = usage(live, session.id)
    assert [row["cost_amount"] for row in rows] == pytest.approx([0.5, 0.75, 0])
    assert [(row["input_tokens"], row["output_tokens"]) for row in rows[:2]] == [(100, 20), (60, 6)]
    assert [row["total_tokens"] for row in rows[:2]] == [120, 66]
    assert [row["context_used"] for row in rows[:2]] == [120, 186], "how full the context is, as it was told"
    assert {row["context_size"] for row in rows} == {200_000}
    assert {row["thought_tokens"] for row in rows} == {None}, "which this agent does not tell"
    assert session.meta()["spent"]["cost_amount"] == pytest.approx(1.25)
    done = session.events("done")[1].content["usage"]
    assert (done["input_tokens"], done["output_tokens"]) == (60, 6)
    session.stop()
    session.say("/usage 10 1 0.1")
    assert usage(live, session.id)[-1]["cost_amount"] == pytest.approx(0.1), "the sum goes on after a resume"
    assert usage(live)[0]["cost_amount"] == pytest.approx(1.35)


def test_unknown_stays_null(live: Live) -> None:
    silent, free = live.new("--no-usage"), live.new()
    silent.tell("hello")
    free.tell("/usage 7 3")
    assert usage(live, silent.id) == []
    (row,) = usage(live, free.id)
    assert (row["total_tokens"], row["cost_amount"], row["cost_currency"]) == (10, None, None)
    table = live.agh("session", "usage", free.id).stdout.splitlines()[1].split()
    assert table[1:] == ["1", "7", "3", "10", "-"]
    assert free.meta()["spent"] is None


def test_sums_by_agent_workspace_day_and_model(live: Live) -> None:
    (live.workspace / "other").mkdir()
    session = live.new(args=("--model", "large"))
    two = live.new("--slow", "0", args=("--workspace", str(live.workspace / "other")))
    session.tell("/usage 10 1 0.5")
    session.tell("/usage 20 2 0.25")
    two.tell("/usage 40 4 1")
    today = datetime.now(UTC).strftime("%Y-%m-%d")

    def sums(by: str) -> dict[Any, tuple[int, int, float]]:
        rows = usage(live, "--by", by)
        assert {row["cost_currency"] for row in rows} == {"USD"}
        return {row[by]: (row["turns"], row["total_tokens"], row["cost_amount"]) for row in rows}

    both = (3, 77, pytest.approx(1.75))
    first, second = (2, 33, pytest.approx(0.75)), (1, 44, pytest.approx(1))
    assert sums("agent") == {"echo": both}
    assert sums("day") == {today: both}
    assert sums("model") == {"large": first, None: second}
    assert sums("workspace") == {str(live.workspace): first, str(live.workspace / "other"): second}
    assert sums("session") == {session.id: first, two.id: second}
    assert [row["turns"] for row in usage(live, session.id, "--by", "turn")] == [1, 1]
    live.agh("session", "usage", "--by", "moon", code=2)
    assert usage(live, "--by", "agent") == [json.loads(line) for line in jsonl(live)]


def jsonl(live: Live) -> list[str]:
    return live.agh("session", "usage", "--by", "agent", "-o", "jsonl").stdout.splitlines()


def test_a_turn_without_a_cost_counts_with_the_others(live: Live) -> None:
    session = live.new()
    session.tell("/usage 10 1")
    session.tell("/usage 20 2 0.5")
    (row,) = usage(live, "--by", "agent")
    assert (row["turns"], row["total_tokens"], row["cost_amount"]) == (2, 33, 0.5)


def test_a_fresh_conversation_begins_a_new_sum(live: Live) -> None:
    session = live.new()
    session.tell("/usage 10 1 0.4")
    session.stop()
    session.agh("resume", "--fresh")
    session.tell("/usage 10 1 0.5")
    assert [row["cost_amount"] for row in usage(live, session.id)] == pytest.approx([0.4, 0.5])
    assert session.meta()["spent"]["cost_amount"] == pytest.approx(0.9)


def test_bars_on_a_terminal_only(live: Live) -> None:
    session = live.new()
    session.tell("/usage 10 10")
    session.tell("/usage 20 20")
    with open_terminal(live, "session", "usage", session.id, TERM="xterm", COLUMNS="160") as terminal:
        assert terminal.ends() == 0
    bars = [line.count("█") for line in terminal.printed.splitlines()[1:]]
    assert bars == [15, 30]
    assert "█" not in live.agh("session", "usage", session.id).stdout


def test_of_a_session_that_is_not_there(live: Live) -> None:
    live.agh("session", "usage", "sess-00000000", code=4)
    assert usage(live) == []


def test_usage_told_request_by_request(live: Live) -> None:
    """As Qwen tells it: in `_meta` of empty chunks, one for each model request, and nowhere else."""
    session = live.new("--no-usage")
    counts = ((100, 20), (130, 7))
    chunks = [
        {
            "sessionUpdate": "agent_message_chunk",
            "content": {"type": "text", "text": ""},
            "_meta": {"usage": {"inputTokens": read, "outputTokens": written, "totalTokens": read + written}},
        }
        for read, written in counts
    ]
    frames = [{"jsonrpc": "2.0", "method": "session/update", "params": {"update": chunk}} for chunk in chunks]
    session.tell("\n".join(f"/raw {json.dumps(frame)}" for frame in frames))
    (row,) = usage(live, session.id)
    assert (row["input_tokens"], row["output_tokens"], row["total_tokens"]) == (230, 27, 257)
    assert session.events("done")[0].content["usage"]["total_tokens"] == 257
    assert "without answering" in session.events("runtime_warning")[0].content["text"], (
        "an empty chunk says nothing"
    )
