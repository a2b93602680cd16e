"""Streams of server-sent events: everything stored, then what comes, then the end; and the page's view."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from itertools import islice
from typing import Any

from tests.plugins.serve.server import Server, serve
from tests.support.build import Home, conversation, says, take_lock
from tests.support.live import Live
from tests.support.processes import is_alive, kill
from tests.support.wait import wait_until


def test_backlog_then_live_then_the_end(shared_live: Live, shared_server: Server) -> None:
    session = shared_live.new()
    session.tell("first")
    with shared_server.stream(f"/api/sessions/{session.id}/stream") as frames:
        events = session.events()
        for event, frame in zip(events, islice(frames, len(events)), strict=True):
            assert (frame.id, frame.event) == (str(event.sequence), event.type)
            assert frame.data["content"] == event.content
            assert frame.data["session_id"] == session.id
        turn = session.send("second")
        for frame in frames:
            if frame.event == "done":
                break
        assert frame.data["turn_id"] == turn
        session.stop()
        *rest, last = list(frames)
    assert [frame.event for frame in rest][-1] == "session_stopped"
    assert [int(following.id) for following in rest] == list(
        range(int(frame.id) + 1, int(frame.id) + 1 + len(rest))
    )
    assert (last.id, last.event) == ("", "session_stopped")
    assert last.data["id"] == f"session-stopped-{session.id}"
    assert last.data["stop_reason"] == "completed"


def test_goes_on_after_the_last_event_id(shared_server: Server, shared_home: Home) -> None:
    shared_home.session([says(f"{number}") for number in range(60)], name="talk")
    with shared_server.stream("/api/sessions/talk/stream", last_event_id="42") as frames:
        got = list(frames)
    assert [frame.id for frame in got] == [*map(str, range(43, 61)), ""]
    with shared_server.stream("/api/sessions/talk/stream?after=58") as frames:
        assert [frame.id for frame in frames] == ["59", "60", ""]
    with shared_server.stream("/api/sessions/talk/stream?after=58", last_event_id="59") as frames:
        assert [frame.id for frame in frames] == ["60", ""]
    with shared_server.stream("/api/sessions/talk/stream", last_event_id="999999") as frames:
        assert [frame.event for frame in frames] == ["session_stopped"]
    for bad in ("x", "-1", "4 2", "", "9" * 30, "١"):
        answer = shared_server.ask(
            "GET", "/api/sessions/talk/stream", last_event_id=bad.encode().decode("latin-1")
        )
        assert (answer.status, answer.code) == (400, "usage"), bad


def test_a_failure_is_in_the_last_event(shared_live: Live, shared_server: Server) -> None:
    session = shared_live.new()
    with shared_server.stream(f"/api/sessions/{session.id}/stream") as frames:
        session.send("/crash")
        last = list(frames)[-1]
    assert last.data["stop_reason"] == "agent_crashed"
    assert last.data["failure"]["kind"] == "process_exit"
    assert os.path.exists(last.data["failure"]["crash_bundle_path"])


def test_a_vanished_keeper_ends_the_stream(shared_live: Live, shared_server: Server) -> None:
    session = shared_live.new()
    with shared_server.stream(f"/api/sessions/{session.id}/stream") as frames:
        session.send("/stream 100000 0.01")
        next(frames)
        session.kill_keeper()
        got = list(frames)
    assert [int(frame.id) for frame in got[:-1]] == list(range(2, len(session.events()) + 1))
    assert got[-1].data["stop_reason"] == "agent_crashed"


def test_a_restarted_server_goes_on_where_it_was(live: Live) -> None:
    server = serve(live)
    session = live.new()
    session.send("/stream 100000 0.005")
    seen: list[int] = []
    for _ in range(2):
        with server.stream(
            f"/api/sessions/{session.id}/stream", last_event_id=str(seen[-1] if seen else 0)
        ) as frames:
            seen += [int(frame.id) for frame in islice(frames, 30)]
            assert server.end() == 0
            seen += [int(frame.id) for frame in frames]  # no notice: the session goes on
        server = serve(live, "--port", server.port)
    assert seen == list(range(1, len(seen) + 1))
    assert session.is_live()


def test_sessions_outlive_the_server_and_leave_no_zombies(live: Live, server: Server) -> None:
    ids = [server.post("/api/sessions", {"agent": "echo"}, 201)["session"]["id"] for _ in range(2)]
    first, second = map(live.session, ids)
    pid = first.keeper
    server.ask("DELETE", f"/api/sessions/{first.id}")
    wait_until(lambda: str(pid) not in children(server.process.pid), what="the dead keeper is waited for")
    kill(server.process.pid)
    server.process.wait()
    assert second.is_live() and is_alive(second.keeper)
    assert second.tell("still there?") == "echo: still there?"


def children(pid: int) -> list[str]:
    """Return the children of a process, the dead ones too. A thread may end meanwhile."""
    pids = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with suppress(OSError), open(f"/proc/{pid}/task/{task}/children") as file:
            pids += file.read().split()
    return pids


def test_the_view_tells_state_elements_and_requests(shared_live: Live, shared_server: Server) -> None:
    session = shared_live.new()
    session.tell("hello")
    with shared_server.stream(f"/api/sessions/{session.id}/view") as frames:
        elements: dict[float, str] = {}
        state: dict[str, Any] = {}
        is_prompted = False
        for frame in frames:
            if frame.event == "elements":
                elements |= {element["number"]: element["html"] for element in frame.data}
            elif frame.event == "session":
                state = frame.data
                if state["permissions"] and state["badge"] != "running":  # the row comes first
                    break
            elif frame.event == "ready" and not is_prompted:
                is_prompted = True
                assert len(elements) == 2 and "echo: hello" in elements[2]
                session.send("/ask path=a.txt Edit <b>a.txt</b>")
        (request,) = state["permissions"]
        assert state["badge"] == "waiting-for-input"
        assert request["offered"] == ["allow", "allow_always", "deny", "deny_always"]
        assert (
            request["about"] == f"edit: {shared_live.workspace}/a.txt"
            and request["title"] == "Edit <b>a.txt</b>"
        )
        answer = {"request_id": request["request_id"], "digest": request["digest"]}
        shared_server.post(f"/api/sessions/{session.id}/approve", answer)
        session.wait_idle()
        session.stop()
        last = list(frames)
    assert [frame.event for frame in last][-2:] == ["session", "over"]
    assert last[-2].data["permissions"] == [] and last[-2].data["state"] == "stopped"
    elements |= {
        element["number"]: element["html"]
        for frame in last
        if frame.event == "elements"
        for element in frame.data
    }
    assert any("permission: allow_once" in html for html in elements.values())
    assert any("<bdi>stopped</bdi>" in html for html in elements.values())


def test_the_view_has_the_questions(shared_live: Live, shared_server: Server) -> None:
    session = shared_live.new()
    session.send("/elicit Which <b>one</b>?")
    with shared_server.stream(f"/api/sessions/{session.id}/view") as frames:
        states = (frame.data for frame in frames if frame.event == "session")
        state = next(state for state in states if state["questions"] and state["badge"] != "running")
        (question,) = state["questions"]
        assert (state["badge"], question["message"]) == ("waiting-for-input", "Which <b>one</b>?")
        shared_server.post(f"/api/sessions/{session.id}/answer", {"decision": "declined"})
        assert next(state for state in states if not state["questions"])


def test_the_view_of_an_empty_session_is_ready_at_once(shared_live: Live, shared_server: Server) -> None:
    session = shared_live.new()
    for _ in range(5):  # also while the log is already followed
        with shared_server.stream(f"/api/sessions/{session.id}/view") as frames:
            began = time.monotonic()
            assert [frame.event for frame in islice(frames, 3)] == ["start", "session", "ready"]
            assert time.monotonic() - began < 5


def test_the_view_of_a_long_session_begins_late(shared_server: Server, shared_home: Home) -> None:
    from tests.support.build import finishes, user

    shared_home.session(
        [
            draft
            for n in range(30)
            for draft in (user(f"ask {n}", f"t{n}"), says("yes", f"t{n}"), finishes(f"t{n}"))
        ],
        name="long",
    )
    with shared_server.stream("/api/sessions/long/view?turns=5") as frames:
        got = list(frames)
    assert got[0].data == {"from": 76, "earlier": 25}
    numbers = [element["number"] for frame in got if frame.event == "elements" for element in frame.data]
    assert numbers == [number for start in range(76, 91, 3) for number in (start, start + 1)]
    with shared_server.stream("/api/sessions/long/view?from=4") as frames:
        assert next(frames).data == {"from": 4, "earlier": 1}
    with shared_server.stream("/api/sessions/long/view?turns=0") as frames:
        assert next(frames).data == {"from": 1, "earlier": 0}


def test_a_deleted_session_is_gone(shared_server: Server, shared_home: Home) -> None:
    import shutil

    directory = shared_home.session(conversation(), state="active", stop_reason=None)
    with take_lock(directory), shared_server.stream(f"/api/sessions/{directory.name}/view") as frames:
        while next(frames).event != "ready":
            pass
        shutil.rmtree(directory)
        assert [frame.event for frame in frames][-1] == "gone"
