"""Who holds a live session: resume takes the lease, detach gives it back."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from tests.support.live import Live, Session, Share


def attach(session: Session, holder: str, *args: object) -> dict[str, Any]:
    result = session.agh("resume", "--holder", holder, *args, "-o", "json")
    found: dict[str, Any] = json.loads(result.stdout)["attach"]
    return found


def seconds(lease: dict[str, Any]) -> float:
    ends, begun = (datetime.fromisoformat(lease[key]) for key in ("attach_expires_at", "attached_at"))
    return (ends - begun).total_seconds()


def test_one_holder_at_a_time(shared_with: Share) -> None:
    session = shared_with()
    assert attach(session, "anna")["attached_to"] == "anna"
    status = session.status()
    assert (status["attached_to"], status["attachable"]) == ("anna", False)
    error = session.error("resume", "--holder", "bert", code=6)
    assert error["code"] == "session_not_attachable"
    assert "anna" in error["message"]
    assert "--steal" in error["hint"]
    assert session.meta()["attach"]["attached_to"] == "anna"
    assert attach(session, "bert", "--steal")["attached_to"] == "bert"
    assert [event.content["attached_to"] for event in session.events("session_attached")] == ["anna", "bert"]


def test_the_same_holder_renews(shared_with: Share) -> None:
    session = shared_with()
    first = attach(session, "anna", "--ttl", "1m")
    second = attach(session, "anna", "--ttl", "2h")
    assert second["attach_expires_at"] > first["attach_expires_at"]
    assert session.count("session_attached") == 1


def test_the_lease_has_an_end(shared_with: Share) -> None:
    session = shared_with()
    for ttl, length in ((None, 900), ("90s", 90), ("3d", 86400)):
        lease = attach(session, "anna", *(("--ttl", ttl) if ttl else ()))
        assert seconds(lease) == pytest.approx(length, abs=0.01)


def test_an_expired_lease_binds_nobody(shared_with: Share) -> None:
    session = shared_with()
    attach(session, "anna", "--ttl", "0")
    assert session.status()["attachable"] is True
    assert attach(session, "bert")["attached_to"] == "bert"


def test_detach_gives_it_back_and_the_agent_goes_on(shared_with: Share) -> None:
    session = shared_with()
    attach(session, "anna")
    session.send("/sleep 1\n/say done")
    error = session.error("detach", "--holder", "bert", code=6)
    assert error["code"] == "session_not_attachable"
    result = session.agh("detach", "--holder", "anna", "-o", "json")
    assert json.loads(result.stdout) == {"detach": {"detached": "anna"}}
    assert session.meta()["attach"] is None
    assert session.count("session_detached") == 1
    session.wait_idle()
    assert session.text() == "done"
    again = session.agh("detach", "--holder", "anna", "-o", "json")
    assert json.loads(again.stdout) == {"detach": {"detached": None}}
    assert session.count("session_detached") == 1


def test_anyone_may_free_it_by_force(shared_with: Share) -> None:
    session = shared_with()
    attach(session, "anna")
    session.agh("detach", "--holder", "bert", "--force")
    assert attach(session, "bert")["attached_to"] == "bert"


def test_a_script_is_one_holder_for_all_its_commands(shared_with: Share) -> None:
    session = shared_with()
    first = json.loads(session.agh("resume", "-o", "json").stdout)["attach"]
    second = json.loads(session.agh("resume", "-o", "json").stdout)["attach"]
    assert first["attached_to"] == second["attached_to"]
    assert first["attached_to"].startswith("cli:")
    assert json.loads(session.agh("detach", "-o", "json").stdout) == {
        "detach": {"detached": first["attached_to"]}
    }


def test_the_lease_ends_with_the_session(live: Live) -> None:
    session = live.new()
    attach(session, "anna", "--ttl", "24h")
    session.stop()
    assert session.meta()["attach"] is None
    assert attach(session, "bert")["attached_to"] == "bert"


def test_the_lease_of_a_dead_keeper_binds_nobody(live: Live) -> None:
    """A lease is on a live session: with the keeper it is gone."""
    session = live.new()
    attach(session, "anna", "--ttl", "24h")
    session.kill_keeper()
    assert attach(session, "bert")["attached_to"] == "bert"


def test_nobody_to_ask(live: Live) -> None:
    session = live.new()
    session.stop()
    assert session.error("detach", code=7)["code"] == "keeper_gone"
