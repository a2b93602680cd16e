"""Sessions in a place with fewer slots than sessions: nothing waits for a slot but the agents."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.plugins.places.slots import Cluster
from tests.support.live import Live, Session
from tests.support.wait import wait_until

NEW = ("session", "new", "--agent", "echo", "--on", "cluster")


@pytest.fixture
def cluster(live: Live, tmp_path: Path) -> Cluster:
    """Return a cluster with one slot, which gives it back when a session is idle for a second."""
    cluster = Cluster(tmp_path / "a cluster", 1)
    cluster.name(live, idle_after="1s")
    return cluster


def queued_session(live: Live) -> Session:
    """Start a session while all slots are taken."""
    result = live.agh(*NEW)
    assert "cluster has no free slot" in result.stderr
    return live.session(result.stdout.strip())


def test_new_does_not_wait_for_a_slot_and_prompts_are_queued(live: Live, cluster: Cluster) -> None:
    first = live.session(live.agh(*NEW).stdout.strip())
    first.send("/stream 600 0.05")
    second = queued_session(live)
    assert second.status()["state"] == "starting"
    assert "waiting for a slot" in live.agh("session", "list").stdout
    receipt = json.loads(second.prompt("hello", "--detach", "-o", "json").stdout)["input"]
    assert (receipt["status"], receipt["waits_for_slot"]) == ("queued", True)
    second.prompt("and again", "--detach")
    assert [status for status, _ in second.inputs()] == ["queued", "queued"]
    assert second.status()["state"] == "starting"
    first.stop()
    second.wait_idle()
    assert second.text() == "echo: helloecho: and again"
    assert [event.content["kind"] for event in second.events("transcript_marker.created")][:2] == [
        "prompt_queued",
        "prompt_queued",
    ]
    second.check_log()


def test_a_slot_that_is_free_is_taken_at_once(live: Live, cluster: Cluster) -> None:
    result = live.agh(*NEW)
    assert result.stderr == ""
    assert live.session(result.stdout.strip()).status()["state"] == "active"


def test_an_idle_session_gives_its_slot_back(live: Live, cluster: Cluster) -> None:
    first = live.session(live.agh(*NEW).stdout.strip())
    first.tell("remember the lighthouse")
    second = queued_session(live)
    wait_until(lambda: not first.is_live(), what="the first session is idle")
    assert first.meta()["stop_reason"] == "idle"
    wait_until(lambda: second.status()["state"] == "active", what="the second session has the slot")
    second.send("/stream 40 0.05")
    result = first.prompt("what did I say?")
    assert "the agent is waiting for a slot; the prompt waits in its queue" in result.stderr
    assert "lighthouse" in result.stdout
    assert cluster.started() == [f"agh-{session.id}" for session in (first, second, first)]


def test_a_slot_is_given_back_after_half_a_minute_unless_the_place_says_otherwise(live: Live) -> None:
    from agh_places.place import redirect_launch

    from agh.adapters.agents import AgentRecord
    from agh.adapters.launch import Launch

    places = {"mine": {"on": "slurm", "idle_after": "2m"}, "wrong": {"on": "slurm", "idle_after": "soon"}}
    seconds = {}
    for place in ("slurm", "mine", "ssh:web1"):
        launch = Launch(AgentRecord("bot", ("bot",)), ["bot"], {}, "/work", place=place, places=places)
        redirect_launch(launch)
        seconds[place] = launch.idle_after
    assert seconds == {"slurm": 30.0, "mine": 120.0, "ssh:web1": None}
    live.configure('[places.wrong]\non = "slurm"\nidle_after = "soon"\n')
    assert "not a time span" in live.agh("session", "new", "--on", "wrong", code=2).stderr


def test_wait_waits(live: Live, cluster: Cluster) -> None:
    first = live.session(live.agh(*NEW).stdout.strip())
    first.tell("hello")
    second = live.session(live.agh(*NEW, "--wait").stdout.strip())
    assert second.status()["state"] == "active"
    assert not first.is_live()


def test_the_time_in_the_queue_is_not_the_agents(live: Live, tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "cluster", 1)
    cluster.name(live, idle_after="1m")
    config = live.home / "config.toml"
    config.write_text(config.read_text() + "[timeouts]\ninitialize = '1s'\n")
    first = live.session(live.agh(*NEW).stdout.strip())
    second = queued_session(live)
    second.prompt("hello", "--detach")
    time.sleep(2.5)  # longer than the agent itself may take
    assert second.status()["state"] == "starting"
    first.stop()
    second.wait_idle()
    assert second.text() == "echo: hello"


def test_a_session_in_the_queue_can_be_stopped(live: Live, cluster: Cluster) -> None:
    first = live.session(live.agh(*NEW).stdout.strip())
    first.send("/stream 600 0.05")
    second = queued_session(live)
    second.prompt("hello", "--detach")
    live.agh("session", "queue", "clear", second.id)
    second.agh("stop")
    assert not second.is_live()
    assert second.status()["state"] == "stopped"
    assert [status for status, _ in second.inputs()] == ["cancelled"]
    first.stop()
    time.sleep(0.5)
    assert cluster.started() == [f"agh-{first.id}"], "no job of it is left in the queue"


def test_a_place_that_says_nothing_is_not_waited_for_either(live: Live, tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "cluster", 1, says=":")
    cluster.name(live)
    first = live.session(live.agh(*NEW).stdout.strip())
    second = queued_session(live)
    second.agh("stop")
    first.stop()


def test_a_start_that_fails_at_once_is_reported_by_new(live: Live, tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "cluster", 1)
    cluster.name(live, on="slurm:nowhere")
    result = live.agh(*NEW, "-o", "json", code=7)
    error = json.loads(result.stderr.splitlines()[-1])["error"]
    assert error["code"] == "place_gone"
    assert "srun: error: invalid partition" in error["message"]


def test_more_sessions_than_slots(live: Live, tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "cluster", 2)
    cluster.name(live, idle_after="0.5s")
    sessions = [live.session(live.agh(*NEW).stdout.strip()) for _ in range(5)]
    for number, session in enumerate(sessions):
        session.prompt(f"number {number}", "--detach")
    for number, session in enumerate(sessions):
        session.wait_idle(60)
        assert session.text() == f"echo: number {number}"
    wait_until(lambda: not any(session.is_live() for session in sessions), what="all slots are free")
