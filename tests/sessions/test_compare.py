"""`agh compare`: one prompt over several agents at once; whoever fails is a row."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from tests.support.live import Live, Session
from tests.support.processes import children_of, open_files
from tests.support.program import in_process
from tests.support.resume import define
from tests.support.wait import wait_until


def compare(live: Live, *args: object, code: int = 0, **options: Any) -> list[dict[str, Any]]:
    document = json.loads(live.agh("compare", *args, "-o", "json", code=code, **options).stdout)
    rows: list[dict[str, Any]] = document["answers"]
    return rows


def test_answer_time_tokens_and_cost(live: Live) -> None:
    define(live, "other", "--no-usage")
    rows = compare(live, "echo:large", "other", "/usage 100 5 0.25\n/sleep 0.2\n/settings")
    assert [row["agent"] for row in rows] == ["echo", "other"], "in the order in which they were named"
    first, second = rows
    assert (first["text"], second["text"]) == ("mode=ask model=large mcp=", "mode=ask model=small mcp=")
    assert (first["input_tokens"], first["output_tokens"], first["total_tokens"]) == (100, 5, 105)
    assert first["cost_amount"] == pytest.approx(0.25)
    assert (first["cost_currency"], first["stop_reason"], first["error"]) == ("USD", "end_turn", None)
    assert 0.2 <= first["seconds"] <= first["total_seconds"]
    assert {session.id for session in live.sessions()} == {first["session_id"], second["session_id"]}
    assert not any(session.is_live() for session in live.sessions())
    wait_until(lambda: not live.processes())


def test_they_work_side_by_side(live: Live) -> None:
    rows = compare(live, "echo", "echo", "/sleep 1\n/say done")
    assert [row["text"] for row in rows] == ["done"] * 2
    spans = [[event.content["timestamp"] for event in session.events()] for session in live.sessions()]
    assert max(times[0] for times in spans) < min(times[-1] for times in spans), "not one after the other"


def test_whoever_fails_is_a_row(live: Live) -> None:
    define(live, "missing", argv=["no-such-agent"])
    define(live, "broken", "--init-hang")
    define(live, "dies", argv=["sh", "-c", "exit 3"])
    live.configure('[timeouts]\ninitialize = "1s"\n')
    good, missing, broken, dies = compare(live, "echo", "missing", "broken", "dies", "hello", code=1)
    assert (good["text"], good["exit"], good["error"]) == ("echo: hello", 0, None)
    assert (missing["exit"], missing["error"]["code"]) == (9, "agent_not_installed")
    assert (broken["exit"], broken["error"]["code"]) == (3, "timed_out")
    assert (dies["exit"], dies["error"]["code"], dies["text"]) == (7, "agent_died", None)
    (row,) = compare(live, "missing", "hello", code=9)
    assert row["seconds"] is None
    (row,) = compare(live, "echo", "/crash", code=7)
    assert (row["stop_reason"], row["error"]["code"]) == ("interrupted", "turn_interrupted")
    (row,) = compare(live, "echo", "/say so far\n/sleep 30", "--timeout", "0.5s", code=3)
    assert row["text"] == "so far"


def test_for_people(live: Live) -> None:
    words = "an answer that is longer than the forty characters of the table"
    result = live.agh("compare", "echo", "echo:large", f"/say {words}")
    table, first, second = result.stdout.split("\n\n")
    head, *rows = table.splitlines()
    assert head.split() == ["AGENT", "TIME", "TOKENS", "COST", "SESSION", "ANSWER"]
    assert [row.split()[0] for row in rows] == ["echo", "echo:large"]
    assert (first, second) == (f"== echo\n{words}", f"== echo:large\n{words}\n")


def test_nobody_is_asked(live: Live) -> None:
    (row,) = compare(live, "echo", "/ask path=a.txt\n/ask kind=read path=b.txt")
    assert row["text"] == "permission: reject_once\npermission: allow_once"
    (row,) = compare(live, "echo", "/ask path=a.txt", "--permissions", "approve-all")
    assert row["text"] == "permission: allow_once"


def test_bad_input_starts_nothing(live: Live) -> None:
    live.agh("compare", "hello", code=2)
    for args, code in (
        (("echo", ""), 2),
        (("echo", "nobody", "hello"), 4),
        (("echo", "hello", "--max-cost", "-1"), 2),
        (("echo", "hello", "--timeout", "soon"), 2),
        (("echo", "hello", "--allowed-tools", "("), 2),
        (("echo", "hello", "--workspace", "nowhere"), 4),
    ):
        assert in_process("compare", *args, cwd=live.workspace).returncode == code
    assert live.sessions() == []


def test_the_prompt_from_standard_input_or_a_file(live: Live) -> None:
    long = "x" * 60_000
    (row,) = compare(live, "echo", "-", stdin=None, input=long)
    assert row["text"] == f"echo: {long}"
    (live.workspace / "prompt.txt").write_text("from a file")
    (row,) = compare(live, "echo", "--file", "prompt.txt", "--keep")
    assert row["text"] == "echo: from a file"
    assert live.session(row["session_id"]).is_live()


def test_ctrl_c_cancels_all_of_them(live: Live) -> None:
    running = live.start("compare", "echo", "echo", "/say begun\n/sleep 60", "-o", "json")
    wait_until(lambda: [_has_begun(session) for session in live.sessions()] == [True, True])
    wait_until(lambda: [_watches(pid) for pid in children_of(running.pid)] == [True, True])
    running.send_signal(signal.SIGINT)
    out, _ = running.communicate(timeout=30)
    assert running.returncode == 130
    rows = json.loads(out)["answers"]
    assert [(row["stop_reason"], row["exit"], row["text"]) for row in rows] == [
        ("cancelled", 130, "begun")
    ] * 2
    wait_until(lambda: not live.processes())


def _has_begun(session: Session) -> bool:
    return (session.directory / "events.db").exists() and "begun" in session.text()


def _watches(pid: int) -> bool:
    """Tell whether a command follows its turn already: from then on Ctrl-C cancels the turn."""
    return any(path.endswith("/events.db") for path in open_files(pid))
