"""Every byte that agh sends to an agent, recorded by a tap and checked by the official SDK's schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.interop.conftest import open_world, step


class Recording(NamedTuple):
    """One launch of the agent: what it was sent, what it sent, and the methods met, in order."""

    sent: list[Any]
    asked: list[Any]
    met: list[str]


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Recording]]:
    """Yield a session that makes use of everything, and its launches by what each is for."""
    from tests.interop import wire  # which imports the SDK

    with open_world(tmp_path_factory.mktemp("frames")) as world:
        session = world.new("--permissions", "approve-all", "--mode", "code", "--model", "large", tap=True)
        recorded = {}

        def keep(name: str) -> None:
            to_agent, from_agent = session.state / "to_agent", session.state / "from_agent"
            sent, received = wire.parse(to_agent.read_bytes()), wire.parse(from_agent.read_bytes())
            recorded[name] = Recording(sent, received, wire.check_all(sent, received))
            to_agent.unlink()
            from_agent.unlink()

        file = str(session.workspace / "file.txt")
        session.prompt(
            step("ask", kind="edit"),
            step("ask", kind="edit", offer=["reject_once"]),
            step("write", path=file, content='quotes ", \\, \u2028, \x00 and \U0001f600\n'),
            step("read", path=file),
            step("read", path=f"{file}-missing"),
            step("create", command="sh", args=["-c", "printf '\\377\\000'; exit 3"], output_byte_limit=1),
            step("wait"),
            step("output"),
            step("create", command="true", args=[], cwd="/"),
            step("create", command="sleep", args=["1000"]),
            step("kill"),
            step("release"),
            step("release"),
            step("elicit"),
            step("extension", method="vendor/thing"),
            step("request", method="terminal/output", params={}),
            step("request", method="fs/no_such_method", params={"sessionId": "any"}),
            step("echo", text="and text with \u2028, \x7f and ü"),
            options=("--no-ask",),
        )
        running = session.start(step("slow"))
        running.wait_for("working")
        session.do("cancel")
        running.end()
        session.do("stop")
        keep("new")

        session.settings(without=["resume"])
        session.do("resume")
        session.kill_keeper()
        world.none_left()
        keep("load")

        session.settings()
        session.prompt(step("echo", text="again"))
        session.do("stop")
        keep("resume")

        session.settings(vague=True)
        session.do("resume", code=1)
        keep("list")

        session.settings()
        forked = session.do("fork")["session"]["id"]
        world.agh("session", "stop", forked)
        keep("fork")
        yield recorded


def test_every_method_was_met_and_every_frame_is_valid(recordings: dict[str, Recording]) -> None:
    """The recordings were checked frame by frame; here is what they must contain."""
    assert recordings["new"].met == [
        "initialize",
        "session/new",
        "session/set_mode",
        "session/set_config_option",
        "session/prompt",
        "session/request_permission",
        "session/request_permission",
        "fs/write_text_file",
        "fs/read_text_file",
        "fs/read_text_file -32002",
        "terminal/create",
        "terminal/wait_for_exit",
        "terminal/output",
        recordings["new"].met[13],  # outside the workspace: see below
        "terminal/create",
        *sorted(["terminal/kill", "terminal/wait_for_exit"]),
        "terminal/release",
        "terminal/release -32002",
        "elicitation/create",
        "_vendor/thing -32601",
        "terminal/output -32602",
        "fs/no_such_method -32601",
        "session/prompt",
        "session/cancel",
        "session/close",
    ]
    options = ["session/set_mode", "session/set_config_option"]
    assert recordings["load"].met == ["initialize", "session/load", *options]
    assert recordings["resume"].met == [
        "initialize",
        "session/resume",
        *options,
        "session/prompt",
        "session/close",
    ]
    assert recordings["list"].met[:3] == ["initialize", "session/resume", "session/list"]
    assert recordings["fork"].met == ["initialize", "session/fork", *options, "session/close"]


def test_requests_name_the_session_that_the_agent_opened(recordings: dict[str, Recording]) -> None:
    opened = {
        message["result"]["sessionId"]
        for name in ("new", "fork")
        for message in recordings[name].asked
        if "sessionId" in (message.get("result") or {})
    }
    assert len(opened) == 2
    named = {
        message["params"]["sessionId"]
        for recording in recordings.values()
        for message in recording.sent
        if "sessionId" in message.get("params", {})
    }
    assert named == opened


def test_nothing_is_asked_of_an_agent_before_it_has_answered_initialize(
    recordings: dict[str, Recording],
) -> None:
    for recording in recordings.values():
        first, *others = recording.sent
        assert first["method"] == "initialize"
        assert first["params"]["protocolVersion"] == 1
        assert others[0]["id"] != first["id"]


def test_a_refusal_is_not_called_a_missing_login(recordings: dict[str, Recording]) -> None:
    assert [name for name in recordings["new"].met if name.endswith(" -32000")] == []
