"""The routes: the answers of the commands, under both path families, with the commands' errors."""

from __future__ import annotations

import json
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from agh.home import Session
from agh.keeper import client
from tests.plugins.serve.server import Server
from tests.support.build import Home, conversation
from tests.support.live import Live
from tests.support.wait import wait_until


def run_json(live: Live, *args: object) -> Any:
    """Run a command and return the JSON that it prints."""
    return json.loads(live.agh("session", *args, "-o", "json").stdout)


def test_reading_answers_what_the_commands_print(live: Live, server: Server, home: Home) -> None:
    directory = home.session(conversation(), name="talk")
    for prefix in ("/api", "/api/workspaces/repo-alpha"):
        url = f"{prefix}/sessions/{directory.name}"
        assert server.get(url) == run_json(live, "status", "talk")
        assert server.get(f"{url}/events") == run_json(live, "events", "talk")
        assert server.get(f"{url}/history") == run_json(live, "history", "talk")
        assert server.get(f"{url}/transcript") == run_json(live, "transcript", "talk")
        assert server.get(f"{url}/permissions") == {"permissions": []}
        recap, printed = (
            response["recap"]
            for response in (
                server.get(f"{url}/recap?limit=2"),
                run_json(live, "recap", "talk", "--limit", 2),
            )
        )
        del recap["snapshot"]["generated_at"], printed["snapshot"]["generated_at"]
        assert recap == printed
    assert server.get("/api/sessions?all=true") == run_json(live, "list", "--all")
    assert server.get("/api/sessions") == {"sessions": []}
    # A name, a prefix, and the workspace by its path, mean it too.
    path = quote("/absolute/path/to/repo", safe="")
    for reference in ("talk", directory.name[:16], f"../workspaces/{path}/sessions/talk"):
        assert (
            server.get(f"/api/sessions/{reference}".replace("sessions/../", ""))["session"]["name"] == "talk"
        )
    for other in ("repo-beta", quote("/elsewhere", safe="")):
        refused = server.get(f"/api/workspaces/{other}/sessions/talk", 404)["error"]
        assert refused["code"] == "session_not_found"
        refused = server.get(f"/api/workspaces/{other}/sessions?all=true", 404)["error"]
        assert refused["code"] == "workspace_not_found"
    assert len(server.get("/api/workspaces/repo-alpha/sessions?all=true")["sessions"]) == 1


def test_queries(server: Server, home: Home) -> None:
    home.session(conversation(), name="talk")

    def sequences(query: str) -> list[int]:
        return [event["sequence"] for event in server.get(f"/api/sessions/talk/events?{query}")["events"]]

    assert sequences("") == list(range(1, 11))
    assert sequences("type=thought&type=done") == [2, 3, 10]
    assert sequences("last=2") == sequences("limit=2") == [9, 10]
    assert sequences("last=0") == []
    assert sequences("after=8") == sequences("after_sequence=8") == [9, 10]
    assert sequences("turn=turn-1&type=user_message") == sequences(
        "turn_id=turn-1&limit=1&after=0&type=user_message"
    )
    assert (
        sequences("agent=nobody")
        == sequences("agent_name=nobody")
        == sequences("since=2999-01-01T00:00:00Z")
        == []
    )
    assert sequences("where=" + quote("content->>'$.tool_call_id' = 'call-1'")) == [4, 6]
    assert len(server.get("/api/sessions/talk/history?last=1")["turns"]) == 1
    assert server.get("/api/sessions/talk/history?last=0") == {"turns": []}
    (first, *_) = server.get("/api/sessions/talk/history")["turns"]
    filters = {
        "type=user_message": lambda event: event["type"] == "user_message",
        f"turn_id={first['turn_id']}": lambda event: event["turn_id"] == first["turn_id"],
        "agent_name=nobody": lambda event: False,
        "since=2999-01-01T00:00:00Z": lambda event: False,
        "after_sequence=2": lambda event: event["sequence"] > 2,
        "where=sequence%20%3C%203": lambda event: event["sequence"] < 3,
    }
    everything = server.get("/api/sessions/talk/history")["turns"]
    for query, keep in filters.items():
        expected = [[event for event in turn["events"] if keep(event)] for turn in everything]
        shown = [turn["events"] for turn in server.get(f"/api/sessions/talk/history?{query}")["turns"]]
        assert shown == [events for events in expected if events], query
    for bad in (
        "limit=-1", "limit=x", "after=x", "type=nonsense", "since=soon", "tpye=done", "where=1)+or+(1",
        "last=1&last=2", "last=1&limit=1", "where=nonsense", "agent=", "limit=99999999999999999999",
    ):  # fmt: skip
        answer = server.ask("GET", f"/api/sessions/talk/events?{bad}")
        assert (answer.status, answer.code) == (400, "usage"), bad
        assert answer.json["error"]["message"] and answer.json["error"]["hint"], bad


def test_a_long_log_comes_whole(server: Server, home: Home) -> None:
    from tests.support.build import says

    home.session([says(f"chunk {number} " + "x" * 2000) for number in range(2500)], name="long")
    events = server.get("/api/sessions/long/events")["events"]
    assert [event["sequence"] for event in events] == list(range(1, 2501))


def test_the_life_of_a_session(live: Live, server: Server) -> None:
    view = server.post("/api/sessions", {"agent": "echo", "name": "one", "max_turns": 9}, 201)["session"]
    session = live.session(view["id"])
    assert (view["state"], view["workspace_path"], view["limits"]) == (
        "active",
        str(live.workspace),
        {"max_turns": 9},
    )
    url = f"/api/sessions/{session.id}"
    listed = server.ask("GET", "/api/sessions")
    assert [view["id"] for view in listed.json["sessions"]] == [session.id]
    assert server.ask("GET", "/api/sessions", if_none_match=listed.headers["etag"]).status == 304

    attached = server.post(f"{url}/attach", {"attached_to": "cli:pane-7", "ttl": "5m"})
    assert attached["attach"]["attached_to"] == attached["session"]["attached_to"] == "cli:pane-7"
    refused = server.ask("POST", f"{url}/attach", {"attached_to": "other"})
    assert (refused.status, refused.code) == (409, "session_not_attachable")
    assert server.ask("POST", f"{url}/resume").code == "session_not_attachable"
    assert server.post(f"{url}/resume", {"attach": False})["attach"] is None
    assert (
        server.post(f"{url}/attach", {"attached_to": "other", "steal": True})["attach"]["attached_to"]
        == "other"
    )
    assert server.post(f"{url}/detach", {"attached_to": "other"}) == {"detach": {"detached": "other"}}

    assert server.ask("POST", f"{url}/interrupt").code == "no_turn"
    turn = server.post(f"{url}/prompt", {"prompt": "/sleep 60", "detach": True}, 202)["input"]["turn_id"]
    assert server.ask("POST", f"{url}/interrupt", {"turn_id": "turn-other"}).code == "no_turn"
    assert server.post(f"{url}/interrupt") == {"turn": {"turn_id": turn}}
    wait_until(lambda: session.has_ended(turn))

    stopped = server.ask("DELETE", url).json["session"]
    assert (stopped["state"], stopped["stop_reason"]) == ("stopped", "completed")
    assert server.ask("DELETE", url).status == 200
    refused = server.ask("POST", f"{url}/attach")
    assert (refused.status, refused.code) == (409, "session_not_attachable")
    assert (server.ask("POST", f"{url}/approve").status, server.ask("POST", f"{url}/interrupt").status) == (
        409,
        409,
    )

    resumed = server.post(f"{url}/resume")
    assert resumed["session"]["state"] == "active"
    assert resumed["restore"]["strategy"] == "native_resume"
    assert server.post(f"{url}/resume")["restore"] is None  # idempotent: it lives already
    assert session.count("session_resumed") == 1


def test_a_workspace_that_has_a_name(live: Live, server: Server) -> None:
    live.agh("workspace", "add", live.workspace, "--name", "shop")
    view = server.post("/api/workspaces/shop/sessions", {"agent": "echo"}, 201)["session"]
    assert (view["workspace_path"], bool(view["workspace_id"])) == (str(live.workspace), True)
    for reference in ("shop", view["workspace_id"], quote(str(live.workspace), safe="")):
        (listed,) = server.get(f"/api/workspaces/{reference}/sessions")["sessions"]
        assert (
            listed["id"]
            == server.get(f"/api/workspaces/{reference}/sessions/@last")["session"]["id"]
            == view["id"]
        )


def test_a_session_in_a_worktree(live: Live, server: Server) -> None:
    refused = server.ask("POST", "/api/sessions", {"agent": "echo", "worktree": "fix"})
    assert 400 <= refused.status < 500 and live.sessions() == []
    git = ["git", "-C", str(live.workspace), "-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    view = server.post("/api/sessions", {"agent": "echo", "worktree": "fix"}, 201)["session"]
    assert view["worktree"]["branch"] == "fix"
    assert view["workspace_path"] == view["worktree"]["path"] != str(live.workspace)


def test_permissions_are_answered(shared_live: Live, shared_server: Server) -> None:
    session = shared_live.new()
    url = f"/api/sessions/{session.id}"
    for body, outcome in (
        ({}, "allow_once"),
        ({"decision": "deny"}, "reject_once"),
        ({"always": True}, "allow_always"),
    ):
        turn = session.send("/ask path=a.txt Edit a.txt")
        (request,) = wait_until(lambda: shared_server.get(f"{url}/permissions")["permissions"])
        assert (request["title"], request["status"]) == ("Edit a.txt", "pending")
        named = {**body, "request_id": request["request_id"]}
        decision = "denied" if "decision" in body else "allowed"
        assert shared_server.post(f"{url}/approve", named)["permission"]["decision"] == decision
        wait_until(partial(session.has_ended, turn))
        assert session.text(turn).endswith(f"permission: {outcome}")
    answer = shared_server.ask("POST", f"{url}/approve")
    assert (answer.status, answer.code) == (404, "permission_unknown")
    assert len(shared_server.get(f"{url}/permissions?all=true")["permissions"]) == 3


def test_questions_are_answered(shared_live: Live, shared_server: Server) -> None:
    session = shared_live.new()
    url = f"/api/sessions/{session.id}"
    for body, outcome in (
        ({"decision": "accepted", "content": {"answer": "blue"}}, 'accept {"answer": "blue"}'),
        ({"decision": "declined"}, "decline {}"),
    ):
        turn = session.send("/elicit Which colour?")
        (question,) = wait_until(lambda: shared_server.get(f"{url}/questions")["questions"])
        assert (question["message"], question["status"]) == ("Which colour?", "pending")
        wrong = {"request_id": question["request_id"], "decision": "accepted", "content": {"answer": 3}}
        refused = shared_server.ask("POST", f"{url}/answer", wrong)
        assert (refused.status, refused.code) == (400, "answer_invalid")
        named = {**body, "request_id": question["request_id"]}
        assert shared_server.post(f"{url}/answer", named)["question"]["decision"] == body["decision"]
        wait_until(partial(session.has_ended, turn))
        assert session.text(turn).endswith(f"elicit: {outcome}")
    answer = shared_server.ask("POST", f"{url}/answer", {"decision": "declined"})
    assert (answer.status, answer.code) == (404, "question_unknown")
    assert shared_server.ask("POST", f"{url}/answer").status == 400
    assert len(shared_server.get(f"{url}/questions?all=true")["questions"]) == 2


def test_an_orphaned_question_is_answered_by_a_prompt(shared_live: Live, shared_server: Server) -> None:
    session = shared_live.new()
    url = f"/api/sessions/{session.id}"
    session.send("/elicit Which colour?")
    wait_until(lambda: shared_server.get(f"{url}/questions")["questions"])
    session.kill_keeper()
    (question,) = shared_server.get(f"{url}/questions")["questions"]
    assert question["status"] == "orphaned"
    receipt = shared_server.post(f"{url}/answer", {"decision": "accepted", "content": {"answer": "red"}})[
        "question"
    ]
    wait_until(partial(session.has_ended, receipt["input"]["turn_id"]))
    assert "- answer: red" in session.text(receipt["input"]["turn_id"])


def test_a_name_is_looked_up_in_the_workspace_of_the_path(live: Live, server: Server, home: Home) -> None:
    ids = [
        home.session(name="talk", workspace_id=f"ws-{number}", workspace_path=f"/somewhere/{number}").name
        for number in range(2)
    ]
    for number, session_id in enumerate(ids):
        view = server.get(f"/api/workspaces/ws-{number}/sessions/talk")["session"]
        assert view["id"] == session_id
    assert server.get("/api/sessions/talk", 400)["error"]["code"] == "ambiguous_session"
    here = server.post("/api/sessions", {"agent": "echo", "name": "talk"}, 201)["session"]
    assert server.get("/api/sessions/talk")["session"]["id"] == here["id"]


def test_bad_requests_change_nothing(live: Live, server: Server, home: Home) -> None:
    home.session(conversation(), name="talk", workspace_path=str(live.workspace))
    for method, path, body, status, code in (
        ("GET", "/api/sessions/nope", None, 404, "session_not_found"),
        ("GET", "/api/sessions/sess-..%2f..%2fetc", None, 404, None),
        ("GET", "/api/nope", None, 404, "route_unknown"),
        ("GET", "/etc/passwd", None, 404, "route_unknown"),
        ("PUT", "/api/sessions", None, 405, "method_unknown"),
        ("POST", "/api/sessions", b"{", 400, "usage"),
        ("POST", "/api/sessions", [], 400, "usage"),
        ("POST", "/api/sessions", {"comand": ["sh"]}, 400, "usage"),
        ("POST", "/api/sessions", {"command": ["sh"]}, 400, "usage"),  # no program of the client's choice
        ("POST", "/api/sessions", {"agent": "nobody"}, 404, "agent_not_found"),
        ("POST", "/api/sessions", {"agent": "echo", "workspace": "/nowhere"}, 404, "workspace_not_found"),
        ("POST", "/api/sessions", {"agent": "echo", "workspace": "a\0b"}, 400, "usage"),
        ("POST", "/api/sessions", {"agent": "echo", "name": "sess-x"}, 400, "usage"),
        ("POST", "/api/sessions", {"agent": "echo", "name": "talk"}, 409, "name_taken"),
        ("POST", "/api/sessions", {"agent": "echo", "permissions": "all"}, 400, "usage"),
        ("POST", "/api/sessions", {"agent": "echo", "max_time": "soon"}, 400, "usage"),
        ("POST", "/api/sessions", {"agent": "echo", "model": "none-such"}, 400, "option_unknown"),
        ("POST", "/api/workspaces/nope/sessions", {"agent": "echo"}, 404, "workspace_not_found"),
        ("POST", "/api/sessions/talk/prompt", {}, 400, "usage"),
        ("POST", "/api/sessions/talk/prompt", {"prompt": "  "}, 400, "usage"),
        ("POST", "/api/sessions/talk/prompt", {"prompt": "x", "messages": []}, 400, "usage"),
        ("POST", "/api/sessions/talk/prompt", {"messages": [{"role": "assistant"}]}, 400, "usage"),
        ("POST", "/api/sessions/talk/prompt", {"prompt": "x", "mode": "shout"}, 400, "usage"),
        ("POST", "/api/sessions/talk/attach", {"ttl": "x"}, 400, "usage"),
        ("GET", "/api/sessions/talk/recap?limit=0", None, 400, "usage"),
        ("GET", "/api/sessions/talk/recap?limit=101", None, 400, "usage"),
        ("POST", "/api/sessions/talk/prompt", b" " * (17 << 20), 413, "request_too_large"),
    ):
        answer = server.ask(method, path, body)
        assert answer.status == status, (method, path, answer)
        assert code is None or answer.code == code, (method, path, answer)
        assert set(answer.json["error"]) == {"code", "message", "hint", "details"}
    assert len(live.sessions()) == 1
    assert server.ask("PUT", "/api/sessions").headers["allow"]


def test_damage_is_told_as_the_commands_do(server: Server, home: Home) -> None:
    directory = home.session(conversation())
    (directory / "events.db").write_bytes(b"no database at all" * 100)
    for path in ("events", "transcript", "stream", "view", "history", "recap"):
        answer = server.ask("GET", f"/api/sessions/{directory.name}/{path}")
        assert (answer.status, answer.code) == (500, "events_not_a_database"), path
    (directory / "meta.json").write_text("{")
    assert server.ask("GET", f"/api/sessions/{directory.name}").code == "meta_invalid"
    (listed,) = server.get("/api/sessions?all=true")["sessions"]
    assert listed["badge"] == "unknown"


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
def test_curl_lines(live: Live, server: Server, home: Home, tmp_path: Path) -> None:
    """Run the curl commands that users already have, with the token."""
    session = live.new(args=("--name", "s"))
    session.tell("hello")
    session.stop()
    meta = json.loads((session.directory / "meta.json").read_text())
    (session.directory / "meta.json").write_text(json.dumps({**meta, "workspace_id": "ws_alpha"}))
    config = tmp_path / "curlrc"
    config.write_text(f'header = "Authorization: Bearer {server.token}"\nsilent\nmax-time = 20\n')
    base = f"http://localhost:{server.port}/api"

    def curl(*args: str) -> str:
        result = subprocess.run(
            ["curl", "-K", str(config), *args], capture_output=True, text=True, check=True
        )
        return result.stdout

    assert json.loads(curl(f"{base}/sessions/{session.id}/transcript"))["messages"][0]["content"] == "hello"
    assert json.loads(curl(f"{base}/sessions/{session.id}"))["session"]["acp_caps"]["loadSession"] is True
    assert json.loads(curl(f"{base}/workspaces/ws_alpha/sessions/{session.id}/recap?limit=20"))["recap"][
        "snapshot"
    ]
    streamed = curl("-N", "-H", "Last-Event-ID: 4", f"{base}/sessions/{session.id}/stream")
    assert next(line for line in streamed.splitlines() if line.startswith("id: ")) == "id: 5"
    assert (
        json.loads(curl("-X", "POST", f"{base}/sessions/{session.id}/resume"))["session"]["state"] == "active"
    )
    assert client.answers(Session.at(session.directory))
    attached = json.loads(curl("-X", "POST", f"{base}/workspaces/ws_alpha/sessions/{session.id}/attach"))
    assert attached["attach"]["attached_to"].startswith("http:")
