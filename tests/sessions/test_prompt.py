"""`agh session prompt`: where the text comes from, how the turn is shown, how it ends."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.support.live import Live, Share
from tests.support.wait import wait_until


def test_text_is_only_the_agents_words(shared_with: Share) -> None:
    session = shared_with()
    result = session.prompt("/think hm\n/tool Read path=a.txt\n/say two words", "-o", "text")
    assert result.stdout == "two words\n"
    assert result.stderr == ""


def test_for_people_tools_have_a_line(shared_with: Share) -> None:
    session = shared_with()
    printed = session.prompt(
        "/think hm\n/say first\n/tool Read kind=read ok\n/tool-fail Build\n/say last"
    ).stdout
    assert printed.splitlines()[0] == "first"
    assert printed.splitlines()[-1] == "last"
    assert "Read" in printed
    assert "Build" in printed
    assert "failed" in printed
    assert "\x1b" not in printed


def test_json_is_one_object_at_the_end(shared_with: Share) -> None:
    session = shared_with()
    turn = session.turn("/say hello\n/usage 10 20 0.5")
    assert turn["session_id"] == session.id
    assert turn["stop_reason"] == "end_turn"
    assert turn["text"] == "hello"
    assert turn["error"] is None
    assert turn["usage"]["input_tokens"] == 10
    assert [message["role"] for message in turn["messages"]] == ["user", "assistant"]
    assert turn["turn_id"] == session.events("done")[0].turn_id


def test_json_lines_are_the_stored_envelopes(shared_with: Share) -> None:
    session = shared_with()
    session.tell("/say an older turn")
    result = session.prompt("/say hello\n/tool Read ok", "-o", "jsonl")
    lines = result.stdout.splitlines()
    printed = session.live.agh("session", "events", session.id, "-o", "jsonl").stdout.splitlines()
    assert lines
    assert lines == [line for line in printed if line in set(lines)]
    assert {json.loads(line)["turn_id"] for line in lines} == {json.loads(lines[0])["turn_id"]}
    types = [json.loads(line)["type"] for line in lines]
    assert types[0] == "user_message"
    assert types[-1] == "done"
    assert {"agent_message", "tool_call", "tool_result"} <= set(types)


def test_from_standard_input(shared_with: Share) -> None:
    session = shared_with()
    result = session.prompt("-", "-o", "text", input="piped in", stdin=None)
    assert result.stdout == "echo: piped in\n"


def test_from_a_file(shared_with: Share, tmp_path: Path) -> None:
    session = shared_with()
    (tmp_path / "ask.txt").write_text("from a file, ünïcode\n", encoding="utf-8")
    result = session.live.agh("session", "prompt", session.id, "--file", tmp_path / "ask.txt", "-o", "text")
    assert result.stdout == "echo: from a file, ünïcode\n"


def test_what_is_no_prompt_is_a_usage_error(shared_with: Share, tmp_path: Path) -> None:
    session = shared_with()
    (tmp_path / "ask.txt").write_text("x")
    (tmp_path / "empty.txt").write_text("")
    for args in (
        (""),
        ("  \n"),
        ("-"),
        ("--file", tmp_path / "empty.txt"),
        (),
        ("x", "--file", tmp_path / "ask.txt"),
    ):
        given = (args,) if isinstance(args, str) else args
        session.live.agh("session", "prompt", session.id, *given, code=2)
    session.prompt("x", "--timeout", "soon", code=2)
    assert session.events() == []
    assert session.inputs() == []


def test_a_prompt_beyond_the_limit_is_refused_and_not_stored(shared_with: Share) -> None:
    session = shared_with()
    result = session.prompt("-", input="x" * (65 << 10), stdin=None, code=2)
    assert "65" in result.stderr or "66" in result.stderr
    assert session.inputs() == []
    assert session.tell("hello") == "echo: hello"


def test_no_such_session(live: Live) -> None:
    live.agh("session", "prompt", "nobody", "hello", code=4)


def test_the_exit_number_tells_how_the_turn_ended(shared_with: Share) -> None:
    session = shared_with()
    for text, reason in (
        ("/refuse", "refusal"),
        ("/stop max_tokens", "max_tokens"),
        ("/error -32603 the model is down", "error"),
    ):
        result = session.prompt(text, "-o", "json", code=1)
        turn = json.loads(result.stdout)["turn"]
        assert turn["stop_reason"] == reason
        assert json.loads(result.stderr)["error"]["code"] == "turn_failed"
    assert "the model is down" in turn["error"]
    assert "the model is down" in result.stderr
    session.check_log()
    assert session.tell("still there") == "echo: still there"


def test_an_agent_that_dies_gives_7_and_what_to_do(live: Live) -> None:
    session = live.new()
    result = session.prompt("/say last words\n/exit 3", code=7)
    assert "last words" in result.stdout
    assert "exited with code 3" in result.stderr
    assert f"agh session queue retry {session.id} 1" in result.stderr


def test_an_empty_turn_is_completed_with_a_warning(shared_with: Share) -> None:
    session = shared_with()
    assert session.turn("/empty")["stop_reason"] == "end_turn"
    (warning,) = session.events("runtime_warning")
    assert "without answering" in warning.content["text"]


def test_timeout_cancels_the_turn_and_exits_3(shared_with: Share) -> None:
    session = shared_with()
    result = session.prompt("/say begun\n/sleep 30\n/say ended", "--timeout", "0.3s", "-o", "json", code=3)
    assert json.loads(result.stderr)["error"]["code"] == "timed_out"
    assert session.events("done")[0].content["stop_reason"] == "cancelled"
    assert session.text() == "begun"
    assert session.tell("and now?") == "echo: and now?"


def test_a_detached_prompt_returns_once_it_is_on_disk(shared_with: Share) -> None:
    session = shared_with()
    result = session.prompt("/sleep 0.3\n/say late", "--detach", "-o", "json")
    receipt = json.loads(result.stdout)["input"]
    (message,) = session.events("user_message")
    assert message.turn_id == receipt["turn_id"]
    assert receipt["status"] == "dispatching"
    assert receipt["repeated"] is False
    session.wait_idle()
    assert session.text(receipt["turn_id"]) == "late"


def test_an_idempotency_key_is_sent_once(live: Live) -> None:
    session = live.new()
    first = session.turn("/say once", "--idempotency-key", "k1")
    again = session.turn("/say once", "--idempotency-key", "k1")
    assert (again["turn_id"], again["text"]) == (first["turn_id"], "once")
    other = session.turn("/say twice", "--idempotency-key", "k2")
    assert other["turn_id"] != first["turn_id"]
    assert session.count("user_message") == 2
    session.stop()
    after = session.prompt("/say once", "--idempotency-key", "k1", "-o", "text")
    assert after.stdout == "once\n"
    assert session.count("user_message") == 2


def test_a_repeated_key_while_the_turn_runs_shows_that_turn(shared_with: Share) -> None:
    session = shared_with()
    text = "/say one\n/sleep 1\n/say two"
    first = session.start_prompt(text, "--idempotency-key", "k", "-o", "text")
    session.wait_for_text("one")
    again = session.prompt(text, "--idempotency-key", "k", "-o", "text").stdout
    out, _ = first.communicate(timeout=20)
    assert out.decode() == again == "one\ntwo\n"
    assert session.count("user_message") == 1


def test_a_repeated_key_shows_nothing_but_its_turn(shared_with: Share) -> None:
    session = shared_with()
    session.agh("resume", "--holder", "me")
    first = session.prompt("/say once", "--idempotency-key", "k3", "-o", "jsonl").stdout
    assert session.prompt("/say once", "--idempotency-key", "k3", "-o", "jsonl").stdout == first


def test_ctrl_c_cancels_the_turn_and_the_agent_stays(shared_with: Share) -> None:
    session = shared_with()
    with session.start_prompt("/say begun\n/sleep 30", "-o", "text") as process:
        session.wait_for_text("begun")
        session.live.has_printed(process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert out == b"begun\n"
    assert b"cancelling" in err
    assert session.events("done")[0].content["stop_reason"] == "cancelled"
    assert session.tell("hello") == "echo: hello"


def test_a_second_ctrl_c_leaves_the_turn_running(shared_with: Share) -> None:
    session = shared_with()
    with session.start_prompt("/ignore-cancel\n/say begun\n/sleep 0.6\n/say ended") as process:
        session.wait_for_text("begun")
        session.live.has_printed(process)
        process.send_signal(signal.SIGINT)
        wait_until(lambda: "prompt_cancel" in session.markers())
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert b"keeps working" in err
    session.wait_idle()
    assert session.text() == "begun\nended"


def test_a_reader_that_leaves_does_not_end_the_turn(shared_with: Share) -> None:
    session = shared_with()
    with session.start_prompt("/stream 20 0.02", "-o", "jsonl") as process:
        assert process.stdout
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(20) == 141
        assert process.stderr
        assert process.stderr.read() == b""
    session.wait_idle()
    assert session.count("agent_message") == 20


SLOW_METADATA = """
import os, sys, time
if any(word.startswith("agh.keeper") for word in sys.orig_argv):
    replace = os.replace
    def slow(*args, **options):
        time.sleep(0.03)
        replace(*args, **options)
    os.replace = slow
"""


def test_when_it_returns_the_metadata_is_as_new(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(SLOW_METADATA)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    session = live.new()
    for turns in range(1, 4):
        assert session.say(f"/say {turns}") == str(turns)
        metadata = session.meta()
        assert (metadata["turns"], metadata["activity"]["turn_id"]) == (turns, None)
