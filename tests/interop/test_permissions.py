"""Permissions that an agent of the official SDK asks for, decided from another process or by the mode."""

from __future__ import annotations

from tests.interop.conftest import Session, World, step
from tests.support.wait import PATIENCE

APPROVED, REFUSED = "the-allow_once", "the-reject_once"


def test_permission_from_another_process(asking: Session) -> None:
    path = asking.workspace / "made.txt"
    running = asking.start(
        step("ask", kind="edit", path=str(path)),
        step("write", path=str(path), content="allowed with the tool call"),
        step("ask", kind="delete", offer=["allow_once", "reject_once"]),
        step("ask", kind="move"),
        step("ask", kind="fetch", offer=["allow_always"]),
        step("create", command="touch", args=["ran.txt"]),
    )
    asked = []
    asking.await_permission()
    assert asking.do("status")["session"]["phase"] == "waiting_for_permission"
    for verb, *args in (["approve"], ["deny"], ["approve", "--always"], ["deny"], ["deny"]):
        row = asking.await_permission()
        asked.append(row)
        decided = asking.do(verb, row["request_id"], *args)["permission"]
        assert decided["request_id"] == row["request_id"]
        running.wait_for(f'"decision":"{decided["decision"]}"')
    turn = running.end()
    first, written, denied, always, unmeant, terminal = turn.results
    assert (first, written) == (APPROVED, {})
    assert path.read_text() == "allowed with the tool call"
    assert denied == REFUSED
    assert always == "the-allow_always"
    assert unmeant == "cancelled"  # no refusal was offered
    assert terminal[1] == "not allowed to run touch ran.txt"
    assert not (asking.workspace / "ran.txt").exists()
    assert (turn.code, turn.stop_reason) == (0, "end_turn")
    assert [row["action"] for row in asked] == ["edit", "delete", "move", "fetch", "execute"]
    assert asked[0]["resource"] == str(path)
    events = turn.of("permission")
    assert [event.get("decision") for event in events[:2]] == [None, "allowed"]
    assert events[0]["request_id"] == events[1]["request_id"] == asked[0]["request_id"]
    assert asking.do("approve", code=4)["error"]["code"] == "permission_unknown"


def test_the_answer_arrives_though_the_viewer_is_gone(asking: Session) -> None:
    """And a shell line that was allowed as a tool call is not asked for again when it is run."""
    line = "printf one; printf two"
    running = asking.start(
        step("ask", kind="execute", command=line), step("create", command=line), step("wait"), step("output")
    )
    running.wait_for('"type":"permission"')
    running.process.kill()
    running.end()
    asking.do("approve")
    asking.do("wait", "--until", "idle", "--timeout", f"{PATIENCE:g}s")
    assert asking.do("permissions")["permissions"] == []
    messages = asking.events("agent_message")
    first, *_, last = [message for message in messages if message["turn_id"] == messages[-1]["turn_id"]]
    assert APPROVED in first["text"]
    assert "onetwo" in last["text"]


def test_a_question_that_the_agent_withdraws_waits_for_nobody(asking: Session) -> None:
    running = asking.start(step("withdraw"))
    running.wait_for("$/cancel_request", '"type":"done"')
    assert asking.do("permissions")["permissions"] == []
    ((code, _),) = running.end().results
    assert code == -32800
    *_, row = asking.do("permissions", "--all")["permissions"]
    assert row["decision"] == "cancelled"


def test_approve_all(permissive: Session) -> None:
    asked, offered, wrote, terminal, _ = permissive.prompt(
        step("ask", kind="edit"),
        step("ask", kind="edit", offer=["reject_once", "reject_always"]),
        step("write", path=f"{permissive.workspace}/made.txt", content="made"),
        step("create", command="true", args=[]),
        step("release"),
    ).results
    assert asked == APPROVED
    assert offered == "cancelled"  # a refusal is never passed off as a consent
    assert wrote == {}
    assert (permissive.workspace / "made.txt").read_text() == "made"
    assert isinstance(terminal, str)


def test_approve_reads(world: World) -> None:
    session = world.new("--permissions", "approve-reads")
    file = session.workspace / "file.txt"
    file.write_text("precious")
    asked = step("ask", kind="read", path=str(file))
    turn = session.prompt(asked, step("ask", kind="search"), step("read", path=str(file)))
    assert turn.results == [APPROVED, APPROVED, "precious"]
    decided = [event["decided_by"] for event in turn.of("permission") if "decision" in event]
    assert decided == ["mode", "mode", "this turn"]

    running = session.start(  # to be allowed to read something opens no way to write or to run it
        step("ask", kind="read", path=str(file)),
        step("write", path=str(file), content="overwritten"),
        step("create", command="touch", args=["ran.txt"]),
    )
    assert [row["action"] for row in session.pause()] == ["edit"]
    session.do("deny")
    running.wait_for('"decision":"denied"')
    assert session.await_permission()["action"] == "execute"
    session.do("deny")
    assert running.end().results[0] == APPROVED
    assert file.read_text() == "precious"
    assert not (session.workspace / "ran.txt").exists()


def test_deny_all(world: World) -> None:
    session = world.new("--permissions", "deny-all")
    file, made = session.workspace / "file.txt", session.workspace / "made.txt"
    file.write_text("inside")
    asked, offered, read, wrote, terminal = session.prompt(
        step("ask", kind="read"),
        step("ask", kind="edit", offer=["allow_once", "allow_always"]),
        step("read", path=str(file)),
        step("write", path=str(made), content="made"),
        step("create", command="true", args=[]),
    ).results
    assert asked == REFUSED
    assert offered == "cancelled"
    assert read[1] == f"not allowed to read {file}"
    assert wrote[1] == f"not allowed to edit {made}"
    assert terminal[1] == "not allowed to run true"
    assert not made.exists()
