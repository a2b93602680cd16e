"""The workspace's edge: links, missing tails and `..` do not lead across it, and no mode allows it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.live import Live, Session
from tests.support.permissions import STAYS, outcomes, pending, raw, raw_request, requests
from tests.support.wait import wait_until

INSIDE = ("plain.txt", "missing.txt", "missing/deep/er.txt", "link-in", "sub/../plain.txt", "dir-in/new.txt")
OUTSIDE = (
    "link-out",
    "dir-out/there.txt",
    "dir-out/missing/tail.txt",
    "../beside.txt",
    "sub/../../beside.txt",
    "loop-out",
)


def make_place(live: Live) -> Path:
    """Make a directory outside the workspace, and links to it and to the inside in the workspace."""
    work, outside = live.workspace, live.workspace.parent / "outside"
    outside.mkdir()
    (outside / "there.txt").write_text("private")
    (outside.parent / "beside.txt").write_text("private")
    (work / "sub").mkdir()
    (work / "plain.txt").write_text("public")
    (work / "link-in").symlink_to("plain.txt")
    (work / "dir-in").symlink_to("sub")
    (work / "link-out").symlink_to(outside / "there.txt")
    (work / "dir-out").symlink_to(outside)
    (work / "loop-out").symlink_to("hop")
    (work / "hop").symlink_to("../beside.txt")
    return outside


@pytest.fixture
def place(live: Live) -> Path:
    return make_place(live)


@pytest.fixture(scope="module")
def module_approving(module_live: Live) -> Session:
    module_live.configure("[permissions]\ntimeout = '0.1s'")
    make_place(module_live)
    return module_live.new(args=("--permissions", "approve-all"))


@pytest.fixture
def approving(shared_live: Live, module_approving: Session) -> Iterator[Session]:
    """Yield a live session where all is allowed and nobody is asked for long; the tests share it."""
    yield module_approving
    module_approving.wait_idle()


def contents(outside: Path) -> dict[str, str]:
    files = [*outside.rglob("*"), outside.parent / "beside.txt"]
    return {str(path): path.read_text() for path in files if path.is_file()}


def test_no_mode_allows_what_is_outside(approving: Session) -> None:
    before, outside = len(requests(approving)), approving.live.workspace.parent / "outside"
    approving.tell("\n".join(f"/ask kind=read path={path}" for path in (*INSIDE, *OUTSIDE)))
    expected = [("allowed", "mode")] * len(INSIDE) + [("denied", "timeout")] * len(OUTSIDE)
    assert dict(zip((*INSIDE, *OUTSIDE), outcomes(approving)[before:], strict=True)) == dict(
        zip((*INSIDE, *OUTSIDE), expected, strict=True)
    )
    edges = {
        str(outside / "there.txt"),
        str(outside / "missing/tail.txt"),
        str(outside.parent / "beside.txt"),
    }
    assert {request.resource for request in requests(approving)[before + len(INSIDE) :]} == edges, (
        "the real path is shown"
    )


def test_one_path_outside_is_enough(approving: Session) -> None:
    before, work = len(requests(approving)), approving.live.workspace
    paths = [{"path": str(work / "plain.txt")}, {"path": str(work.parent / "outside/there.txt")}]
    approving.send(raw_request({"kind": "edit", "locations": paths}) + STAYS)
    wait_until(lambda: [request.decision for request in requests(approving)[before:]] not in ([], [None]))
    assert outcomes(approving)[before:] == [("denied", "timeout")]
    approving.call("cancel")


def test_wherever_the_agent_tells_the_path(approving: Session) -> None:
    before, path = len(requests(approving)), str(approving.live.workspace.parent / "outside/there.txt")
    tools: list[dict[str, Any]] = [{"rawInput": {key: path}} for key in ("path", "file_path", "filePath")]
    tools.append({"content": [{"type": "diff", "path": path, "oldText": None, "newText": "x"}]})
    approving.send("\n".join(raw_request({"kind": "edit", **tool}) for tool in tools) + STAYS)
    wait_until(lambda: len(requests(approving)) == before + len(tools))
    wait_until(lambda: all(request.decision for request in requests(approving)))
    assert outcomes(approving)[before:] == [("denied", "timeout")] * len(tools)
    approving.call("cancel")


def test_a_person_may_allow_the_agent_what_is_outside(live: Live, place: Path) -> None:
    session = live.new(args=("--permissions", "approve-all"))
    session.send("/ask kind=read path=link-out")
    wait_until(lambda: requests(session))
    session.agh("approve")
    session.wait_idle()
    assert session.text() == "permission: allow_once"


def refused_at_once(session: Session, steps: list[str]) -> None:
    before = len(requests(session))
    reply = session.tell("\n".join(steps))
    assert reply.count("outside the workspace") == len(steps), reply
    assert [outcome for outcome in outcomes(session)[before:] if outcome[1] == "timeout"] == [], (
        "nobody was asked in vain"
    )


def test_files_outside_are_refused_at_once(approving: Session) -> None:
    outside = approving.live.workspace.parent / "outside"
    before = contents(outside)
    steps = [step for path in OUTSIDE for step in (f"/read {path}", f"/write {path} gone")]
    refused_at_once(approving, steps)
    assert contents(outside) == before


def test_files_outside_are_out_of_reach_also_when_a_rule_allows_them(live: Live, place: Path) -> None:
    live.configure("[[permissions.rules]]\ndecision = 'allow'\nkind = '*'")
    before = contents(place)
    session = live.new(args=("--permissions", "approve-all"))
    refused_at_once(session, [step for path in OUTSIDE for step in (f"/read {path}", f"/write {path} gone")])
    assert contents(place) == before
    reply = session.tell("\n".join(f"/write {path} mine" for path in INSIDE))
    assert reply.count(": ok") == len(INSIDE)
    assert (live.workspace / "plain.txt").read_text() == "mine"
    assert (live.workspace / "sub" / "new.txt").read_text() == "mine"


@pytest.mark.parametrize("step", ["/read pipe", "/write pipe x"])
def test_a_fifo_in_the_workspace_does_not_hang_the_keeper(approving: Session, step: str) -> None:
    pipe = approving.live.workspace / "pipe"
    os.mkfifo(pipe)
    turn_id = approving.send(f"{step}\n/say went on")
    try:
        wait_until(lambda: "went on" in approving.text(turn_id))
        assert "pipe: error" in approving.text(turn_id)
    finally:
        os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))  # lets a keeper go that waits for the other end
        approving.wait_idle()
        pipe.unlink()


def test_a_command_does_not_run_outside_though_its_directory_was_moved_while_someone_was_asked(
    live: Live, place: Path
) -> None:
    session = live.new()
    command = {"command": "touch", "args": ["ran.txt"], "cwd": str(live.workspace / "sub")}
    session.send(raw("terminal/create", command) + STAYS)
    wait_until(lambda: requests(session))
    (live.workspace / "sub").rename(live.workspace / "was-sub")
    (live.workspace / "sub").symlink_to(place)
    assert session.decide("allow")["decision"] == "allowed"
    answer = raw("terminal/create", {"command": "touch", "args": ["ran.txt"]})
    session.call("cancel")
    session.wait_idle()
    session.send(answer + STAYS)
    wait_until(lambda: len(requests(session)) == 2)
    session.decide("allow")
    wait_until((live.workspace / "ran.txt").exists, what="one inside does run")
    assert not list(live.workspace.parent.rglob("sub/ran.txt"))
    assert not (place / "ran.txt").exists()


def test_what_was_approved_is_what_is_opened(live: Live, place: Path) -> None:
    """The link led to one file when the request was shown, and to another when it was allowed."""
    work = live.workspace
    (work / "other.txt").write_text("other")
    (work / "moving").symlink_to("plain.txt")
    session = live.new()
    frame = raw("fs/write_text_file", {"sessionId": "any", "path": str(work / "moving"), "content": "new"})
    session.send(frame + STAYS)
    request = pending(session)
    assert request.resource == str(work / "plain.txt")
    (work / "moving").unlink()
    (work / "moving").symlink_to("other.txt")
    session.agh("approve", request.request_id)
    wait_until(lambda: (work / "plain.txt").read_text() == "new")
    assert (work / "other.txt").read_text() == "other"
