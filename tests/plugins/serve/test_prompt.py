"""The prompt route: one turn as an AI SDK UI message stream."""

from __future__ import annotations

from typing import Any

from tests.plugins.serve.server import Server
from tests.support.live import Live, Session
from tests.support.wait import wait_until


def turn(server: Server, session_id: str, body: dict[str, Any]) -> list[Any]:
    with server.stream(f"/api/sessions/{session_id}/prompt", "POST", body) as frames:
        return [frame.data for frame in frames]


def test_a_turn(shared: Session, shared_server: Server) -> None:
    steps = ("/think hm", "/tool Read path=a.txt all of it", "/tool-fail Bash no such command", "/plan a;b")
    text = "\n".join(("hello", *steps, "/say bye"))
    *parts, last = turn(shared_server, shared.id, {"prompt": text})
    assert last == "[DONE]"
    assert parts[0]["type"] == "start" and parts[1] == {"type": "start-step"}
    assert parts[-2] == {"type": "finish-step"}
    finish = parts[-1]
    assert (finish["type"], finish["messageMetadata"]["stop_reason"]) == ("finish", "end_turn")
    by_type: dict[str, list[Any]] = {}
    for part in parts:
        by_type.setdefault(part["type"], []).append(part)
    text = "".join(part["delta"] for part in by_type["text-delta"])
    assert text == shared.text(parts[0]["messageId"])
    assert by_type["reasoning-delta"][0]["delta"] == "hm"
    starts, ends = ([part["id"] for part in by_type[f"text-{word}"]] for word in ("start", "end"))
    assert starts == ends
    assert [part["toolName"] for part in by_type["tool-input-available"]] == ["Read", "Bash"]
    assert by_type["tool-output-available"][0]["output"]["content"] == "all of it"
    assert by_type["tool-output-error"][0]["errorText"] == "no such command"
    assert by_type["data-plan"] and by_type["data-usage"][0]["id"] == "usage"


def test_what_a_stock_client_sends(shared_live: Live, shared_server: Server) -> None:
    session = shared_live.new()
    session.stop()  # a prompt resumes it
    messages = [
        {"id": "1", "role": "user", "parts": [{"type": "text", "text": "old"}]},
        {"id": "2", "role": "assistant", "parts": [{"type": "text", "text": "echo: old"}]},
        {
            "id": "3",
            "role": "user",
            "parts": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}],
        },
    ]
    body = {"id": "chat", "messages": messages, "trigger": "submit-message", "messageId": None}
    parts = turn(shared_server, session.id, body)
    assert "".join(part["delta"] for part in parts[:-1] if part["type"] == "text-delta") == "echo: one\ntwo"
    assert session.inputs() == [("sent", "one\ntwo")]
    messages[-1]["parts"].append({"type": "file", "mediaType": "image/png", "url": "data:,"})  # type: ignore[attr-defined]
    assert shared_server.ask("POST", f"/api/sessions/{session.id}/prompt", body).code == "usage"


def test_turns_that_do_not_complete(shared_live: Live, shared_server: Server) -> None:
    session = shared_live.new()
    url = f"/api/sessions/{session.id}"
    *_, error, last = turn(shared_server, session.id, {"prompt": "/error -32603 overloaded"})
    assert (error["type"], last) == ("error", "[DONE]")
    assert "overloaded" in error["errorText"]
    with shared_server.stream(f"{url}/prompt", "POST", {"prompt": "/sleep 60"}) as frames:
        next(frames)
        shared_server.post(f"{url}/interrupt")
        assert [frame.data for frame in frames][-2:] == [{"type": "abort"}, "[DONE]"]
    with shared_server.stream(f"{url}/prompt", "POST", {"prompt": "/sleep 60"}) as running:
        next(running)
        with shared_server.stream(f"{url}/prompt", "POST", {"prompt": "never"}) as waiting:
            next(waiting)
            shared_server.post(f"{url}/prompt", {"prompt": "now", "mode": "interrupt", "detach": True}, 202)
            assert "dropped from the queue" in [frame.data for frame in waiting][-2]["errorText"]
    session.wait_idle()
    with shared_server.stream(f"{url}/prompt", "POST", {"prompt": "/stream 100000 0.01"}) as frames:
        next(frames)
        session.kill_keeper()
        *_, error, last = [frame.data for frame in frames]
    assert (error["type"], last) == ("error", "[DONE]")


def test_a_turn_goes_on_without_its_reader(shared: Session, shared_server: Server) -> None:
    with shared_server.stream(
        f"/api/sessions/{shared.id}/prompt", "POST", {"prompt": "/stream 20 0.02\n/say end"}
    ) as frames:
        turn_id = next(frames).data["messageId"]
    wait_until(lambda: shared.has_ended(turn_id))
    assert shared.text(turn_id).endswith("end")


def test_a_key_sends_once(shared: Session, shared_server: Server) -> None:
    body = {"prompt": "once", "idempotency_key": "k"}
    first, second = turn(shared_server, shared.id, body), turn(shared_server, shared.id, body)
    assert first == second
    assert [status for status, text in shared.inputs() if text == "once"] == ["sent"]
