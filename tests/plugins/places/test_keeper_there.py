"""Sessions that the agh of another machine keeps, and their mirrors here: a real sshd, and two homes."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agh import home
from agh.errors import AghError, SessionMirrored
from agh.store import lock as locks
from agh.store.writer import Writer
from tests.plugins.places.test_list import place
from tests.plugins.places.wire import Wire
from tests.support.live import Live, Session
from tests.support.processes import is_alive, kill
from tests.support.wait import wait_until

NEW = ("session", "new", "--agent", "echo", "--on", "box", "--keeper", "there")


@pytest.fixture
def far(live: Live, wire: Wire, tmp_path: Path) -> Iterator[Live]:
    """Return the home of the other machine."""
    far = Live(tmp_path / "far home", live.workspace)
    live.configure(place("box", wire, far.home))
    yield far
    for session in live.sessions():
        if session.is_live():
            os.kill(session.keeper, signal.SIGTERM)
    far.end()


class Pair:
    """A mirror here, and the session there."""

    def __init__(self, live: Live, far: Live, *options: str) -> None:
        session_id = live.agh(*NEW, *options).stdout.strip()
        self.here, self.there = live.session(session_id), far.session(session_id)

    def stream(self, count: int) -> str:
        """Start a turn of so many chunks, 20 a second; return its id when some of them are here."""
        turn = self.here.send(f"/stream {count} 0.05")
        wait_until(lambda: "chunk 3 " in self.here.text(turn), what="the third chunk")
        return turn

    def user_texts(self, after: int) -> list[str]:
        """Return what the user said there after this event."""
        events = self.there.events("user_message")
        return [event.content["text"] for event in events if event.sequence > after]

    def wait_connected(self) -> None:
        """Wait until the mirror is connected, so that it forwards requests."""

        def is_connected() -> bool:
            try:
                self.here.call("queue", input_id=0)
            except AghError as error:
                return error.code != "place_gone"
            return True

        wait_until(is_connected, 30, "the mirror is connected")

    def rows(self, session: Session) -> list[Any]:
        return session.fetch("SELECT * FROM events ORDER BY sequence")

    def assert_same(self) -> None:
        """Wait until the mirror has caught up; then every row and every table must be the same."""
        wait_until(lambda: self.rows(self.here) == self.rows(self.there), what="the mirror has caught up")
        for table in ("inputs", "permissions", "questions", "token_usage"):
            sql = f"SELECT * FROM {table} ORDER BY 1"
            wait_until(lambda sql=sql: self.here.fetch(sql) == self.there.fetch(sql), what=table)
        self.here.check_log()


@pytest.fixture(scope="module")
def module_pair(module_live: Live, module_wire: Wire) -> Iterator[Pair]:
    far = Live(module_live.home.parent / "far home", module_live.workspace)
    module_live.configure(place("box", module_wire, far.home))
    pair = Pair(module_live, far)
    yield pair
    if pair.here.is_live():
        os.kill(pair.here.keeper, signal.SIGTERM)
    far.end()


@pytest.fixture
def pair(shared_live: Live, module_wire: Wire, module_pair: Pair) -> Iterator[Pair]:
    """Yield a connected pair that the tests of the module share; each looks at turns of its own."""
    shared_live.configure(place("box", module_wire, module_pair.there.live.home))
    if not module_pair.here.is_live():
        module_pair.here.agh("resume")
    module_pair.wait_connected()
    yield module_pair
    if module_pair.here.is_live():
        module_pair.here.wait_idle()
        module_pair.assert_same()


def test_a_session_that_is_kept_there_is_used_from_here(live: Live, far: Live) -> None:
    pair = Pair(live, far, "--name", "fix-login")
    assert pair.there.is_live()
    assert pair.here.meta()["mirror"] == {"place": "box", "id": pair.there.id}
    assert "echo: hello" in live.agh("session", "prompt", "fix-login", "hello").stdout
    pair.assert_same()
    assert live.agh("session", "last", "fix-login").stdout == "echo: hello\n"
    assert pair.here.status()["badge"] == "idle"
    result = pair.here.agh("stop", "-o", "json")
    assert json.loads(result.stdout)["session"]["stop_reason"] == "completed"
    assert not pair.there.is_live()
    assert not pair.here.is_live()
    pair.assert_same()
    assert "SEEN 2" in pair.here.prompt("what did I say?").stdout, "it is resumed there"
    assert pair.there.is_live()
    pair.assert_same()


def test_permissions_are_answered_from_here(pair: Pair) -> None:
    turn = pair.here.send("/ask kind=edit path=x")
    wait_until(lambda: pair.here.status()["badge"] == "waiting-for-input", what="the request")
    pair.here.agh("approve")
    wait_until(lambda: "permission: allow_once" in pair.here.text(turn), what="the answer")
    pair.stream(600)
    pair.here.agh("cancel")
    pair.here.wait_idle()
    pair.assert_same()


def test_the_turn_goes_on_when_the_wire_is_cut(shared_live: Live, module_wire: Wire, pair: Pair) -> None:
    before = len(pair.rows(pair.there))
    turn = pair.stream(100)
    keeper = pair.here.keeper
    settings = shared_live.home / "config.toml"
    settings.rename(shared_live.home / "aside")  # the network is away for a while
    shared_live.configure('[places.box]\non = "ssh:127.0.0.1"\noptions = ["-F", "none", "-p", "1"]\n')
    module_wire.cut()
    wait_until(lambda: (pair.here.meta().get("activity") or {}).get("disconnected_at"), what="the cut")
    assert pair.here.error("prompt", "too early", code=7)["code"] == "place_gone"
    wait_until(lambda: pair.there.has_ended(turn), 30, "the turn has ended there")
    assert not pair.here.has_ended(turn)
    assert pair.here.is_live() and pair.here.keeper == keeper
    (shared_live.home / "aside").rename(settings)
    wait_until(lambda: pair.here.has_ended(turn), 30, "the mirror has caught up")
    assert pair.here.text(turn).count("chunk") == 100
    pair.assert_same()
    assert "echo: and now" in pair.here.prompt("and now").stdout
    pair.assert_same()
    assert pair.user_texts(before) == ["/stream 100 0.05", "and now"]


def test_cuts_again_and_again_lose_nothing(module_wire: Wire, pair: Pair) -> None:
    turn = pair.here.send("/stream 120 0.05")
    for _ in range(3):
        seen = len(pair.rows(pair.here))
        wait_until(lambda seen=seen: len(pair.rows(pair.here)) > seen or pair.there.has_ended(turn), 20)
        module_wire.cut()
    wait_until(lambda: pair.here.has_ended(turn), 60)
    assert pair.here.text(turn).count("chunk") == 120
    pair.assert_same()


def test_a_prompt_under_way_when_the_wire_is_cut_is_queued_once(module_wire: Wire, pair: Pair) -> None:
    before = len(pair.rows(pair.there))
    for number in range(3):
        process = pair.here.start_prompt(f"number {number}", "--detach")
        module_wire.cut()
        process.communicate(timeout=60)
        pair.wait_connected()
    pair.here.prompt("the last")
    texts = pair.user_texts(before)
    assert "the last" in texts
    assert len(texts) == len(set(texts))
    pair.assert_same()


def test_a_mirror_whose_keeper_is_killed_catches_up(shared_live: Live, pair: Pair) -> None:
    turn = pair.stream(60)
    kill(pair.here.keeper)
    wait_until(lambda: not pair.here.is_live())
    before = pair.rows(pair.here)
    shared_live.agh("session", "repair", "--all")
    assert pair.rows(pair.here) == before, "repair adds nothing to a mirror"
    assert "may still be running on the other machine" in pair.here.meta()["stop_detail"]
    wait_until(lambda: pair.there.has_ended(turn), 30)
    keeper = pair.there.keeper
    assert "echo: hello" in pair.here.prompt("hello").stdout
    assert pair.there.keeper == keeper, "it never stopped"
    pair.assert_same()


def test_stop_reaches_the_session_though_its_mirror_was_killed(pair: Pair) -> None:
    pair.here.tell("hello")
    kill(pair.here.keeper)
    wait_until(lambda: not pair.here.is_live())
    assert pair.there.is_live()
    pair.here.agh("stop")
    assert not pair.there.is_live()
    pair.assert_same()
    pair.here.agh("stop")
    assert not pair.there.is_live(), "stopping it again starts nothing"


def test_a_session_that_stops_there_is_stopped_here(pair: Pair) -> None:
    pair.here.tell("hello")
    pair.there.stop()
    wait_until(lambda: not pair.here.is_live())
    assert pair.here.status()["stop_reason"] == "completed"
    pair.assert_same()


def test_the_keeper_there_may_be_killed_too(pair: Pair) -> None:
    turn = pair.stream(600)
    pair.there.kill_keeper()
    wait_until(lambda: not pair.here.is_live(), 20)
    assert "echo: hello" in pair.here.prompt("hello").stdout
    pair.assert_same()
    assert pair.here.events("error", turn=turn), "the repair there closed the turn"


def test_nobody_else_writes_a_mirror(live: Live, far: Live) -> None:
    pair = Pair(live, far)
    pair.here.tell("hello")
    pair.here.agh("stop")
    lock = locks.take(home.Session.at(pair.here.directory))
    assert lock is not None
    with lock, pytest.raises(SessionMirrored):
        Writer(lock, "echo")
    for command in (("set", "permissions=deny-all"), ("redact", "--sequence", "1"), ("checkpoint",)):
        pair.here.agh(*command, code=None)
    pair.assert_same()
    assert pair.here.error("resume", "--fresh", code=2)["code"] == "usage"
    receipt = json.loads(pair.here.agh("delete", "-o", "json").stdout)["deleted"]
    assert "the original session on box" in receipt["not_removed"][0]
    assert pair.there.text() == "echo: hello", "it stays there"


def test_signals_end_only_the_connection(pair: Pair) -> None:
    turn = pair.here.send("/stream 60 0.05")
    os.kill(pair.here.keeper, signal.SIGTERM)
    wait_until(lambda: not pair.here.is_live())
    wait_until(lambda: pair.there.has_ended(turn), 30)
    pair.here.agh("resume")
    pair.assert_same()


def test_what_cannot_be_created_there_leaves_nothing(live: Live, far: Live, wire: Wire) -> None:
    result = live.agh("session", "new", "--agent", "nobody", "--on", "box", "--keeper", "there", code=4)
    assert "nobody" in result.stderr
    assert live.sessions() == far.sessions() == []
    live.agh("session", "new", "--agent", "echo", "--keeper", "there", code=2)
    live.agh("session", "new", "--agent", "echo", "--on", "slurm", "--keeper", "there", code=2)
    live.configure('[places.box]\non = "ssh:127.0.0.1"\noptions = ["-F", "none", "-p", "1"]\n')
    live.agh(*NEW, code=7)
    assert live.sessions() == far.sessions() == []


def test_a_wire_that_is_cut_while_the_session_is_created(live: Live, far: Live, wire: Wire) -> None:
    process = live.start(*NEW)
    wait_until(far.sessions, what="the session there")
    wire.cut()
    process.communicate(timeout=60)
    assert process.returncode == 7
    (there,), (here,) = far.sessions(), live.sessions()
    assert there.id == here.id
    assert "echo: hello" in here.prompt("hello").stdout
    assert [session.id for session in far.sessions()] == [here.id]


def test_a_network_that_is_silent_for_a_while(module_wire: Wire, pair: Pair) -> None:
    """Nothing is closed, and nothing arrives; then everything does."""
    turn = pair.stream(60)
    module_wire.cut(signal.SIGSTOP)
    wait_until(lambda: pair.there.has_ended(turn), 30)
    assert not pair.here.has_ended(turn)
    module_wire.cut(signal.SIGCONT)
    wait_until(lambda: pair.here.has_ended(turn), 30)
    pair.assert_same()


def test_a_machine_whose_agh_knows_no_mirrors(live: Live, far: Live, wire: Wire, tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.mkdir()
    (old / "agh").write_text("#!/bin/sh\necho \"agh: agh has no command 'relay'\" >&2\nexit 2\n")
    (old / "agh").chmod(0o755)
    live.configure(place("box", wire, far.home, env=[f"PATH={old}:/usr/bin:/bin"]))
    result = live.agh(*NEW, code=2)
    assert "box: agh has no command 'relay'" in result.stderr
    assert live.sessions() == []


def test_a_full_cluster_of_that_machine(live: Live, far: Live, wire: Wire, tmp_path: Path) -> None:
    from tests.plugins.places.slots import Cluster

    Cluster(tmp_path / "cluster", 1).name(far)
    live.configure(place("box", wire, far.home, agent_on="cluster"))
    first = Pair(live, far)
    result = live.agh(*NEW)
    assert "box has no free slot" in result.stderr
    second = live.session(result.stdout.strip())
    second.prompt("hello", "--detach")
    assert [status for status, _ in far.session(second.id).inputs()] == ["queued"]
    first.here.agh("stop")
    second.wait_idle()
    wait_until(lambda: second.text() == "echo: hello", what="the answer")


def test_the_agent_may_run_in_a_place_of_that_machine(
    live: Live, far: Live, wire: Wire, tmp_path: Path
) -> None:
    from tests.plugins.places.slots import Cluster

    Cluster(tmp_path / "cluster", 1).name(far)
    live.configure(place("box", wire, far.home, agent_on="cluster"))
    pair = Pair(live, far)
    assert pair.there.meta()["place"] == "cluster"
    turn = pair.here.send("/stream 60 0.05")
    pair.here.wait_for_text("chunk 3 ")
    agent = pair.there.agent
    wire.cut()
    wait_until(lambda: pair.here.has_ended(turn), 60)
    assert is_alive(agent)
    pair.assert_same()
