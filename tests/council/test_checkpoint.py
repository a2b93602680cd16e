"""checkpoint.json: one per session, sealed, and made again from the log on request."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agh.core.checkpoint import checkpoint, seal, unseal
from tests.council.support import Council, profile, seat
from tests.support.live import Live, Session

DAMAGED, MISSING = 8, 4


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at // 8] ^= 1 << at % 8
    path.write_bytes(data)


def shown(session: Session, *args: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(session.agh("checkpoint", *args, "-o", "json").stdout)["checkpoint"]
    return found


def test_every_bit_of_it_is_sealed() -> None:
    made = checkpoint(
        "sess-00000000",
        budget_spent=1e-05,
        rounds_completed=1,
        elapsed_seconds=0.5,
        active_agents=[],
        pending_delegations=[{"target": "é", "message": "x", "round": 1, "status": "sent"}],
        transcript_replay_depth=50,
        last_sequence=3,
        created_at="2026-01-01T00:00:00.000Z",
    )
    sealed = seal(made)
    assert {key: value for key, value in unseal(sealed).items() if key != "sha256"} == made
    for bit in range(len(sealed) * 8):
        broken = bytearray(sealed)
        broken[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ValueError):
            unseal(bytes(broken))
    for nothing in (b"", b"{}", b"[]", b'{"sha256": 1}', b'{"sha256": ""}', sealed + b"{}"):
        with pytest.raises(ValueError):
            unseal(nothing)


def test_the_checkpoint_of_any_session(live: Live) -> None:
    session = live.new()
    assert session.error("checkpoint", code=MISSING)["code"] == "checkpoint_missing"
    session.tell("/usage 10 5 0.4\n/say hello")
    session.begin("/say begun\n/sleep 30")
    session.said("begun")
    session.begin("/say waited")
    session.agh("pause")
    path = session.directory / "checkpoint.json"
    made, before = shown(session), path.read_bytes()
    assert oct(path.stat().st_mode)[-3:] == "600"
    assert made["constraint_state"]["budget_spent"] == pytest.approx(0.4)  # type: ignore[index]
    assert made["rounds_completed"] == 2
    assert made["pending_delegations"] == [
        {"target": "echo", "message": "/say waited", "round": 3, "status": "queued"}
    ]
    (agent,) = made["active_agents"]  # type: ignore[misc,attr-defined]
    assert (agent["agent_id"], agent["depth"], agent["acp_session_id"]) == (
        "echo",
        0,
        session.meta()["acp_session_id"],
    )
    assert "hello" in [one["content"] for one in agent["conversation_tail"] if one["role"] == "assistant"]
    paused = session.events("session_paused")[-1].content
    assert (
        paused["checkpoint"] == made["created_at"]
        and made["last_sequence"] == session.events()[-1].sequence - 1
    )
    assert shown(session, "--rebuild") == made and path.read_bytes() == before, "the log gives the same bytes"
    flip(path, 4321)
    error = session.error("checkpoint", code=DAMAGED)
    assert (
        error["code"] == "checkpoint_damaged"
        and error["hint"] == f"agh session checkpoint {session.id} --rebuild"
    )
    assert shown(session, "--rebuild") == made
    session.agh("resume")
    session.said("waited")
    assert session.error("checkpoint", "--rebuild", code=6)["code"] == "session_live"
    session.agh("pause")
    assert shown(session)["rounds_completed"] == 3
    assert [one.name for one in session.directory.glob("*checkpoint*")] == ["checkpoint.json"], "only one"
    assert "rounds:   3" in session.agh("checkpoint").stdout


def test_a_session_that_was_killed_can_have_one(live: Live) -> None:
    session = live.new()
    session.tell("/say hello")
    session.kill_keeper()
    made = shown(session, "--rebuild")
    assert made["rounds_completed"] == 1
    assert live.agh("session", "checkpoint", "sess-doesnotexist", code=4)


def test_the_tail_is_as_deep_as_configured(live: Live) -> None:
    live.configure("[session]\ntranscript_replay_depth = 1")
    session = live.new()
    session.tell("/say one")
    session.agh("pause")
    (agent,) = shown(session)["active_agents"]  # type: ignore[misc,attr-defined]
    assert [one["content"] for one in agent["conversation_tail"]] == ["one"]


def test_a_damaged_checkpoint_of_a_council_is_refused_and_rebuilt(council: Council) -> None:
    text = profile(
        "[delegation]\n[[gates]]\nafter_round = 1\n[expertise]\nenabled = true\n",
        seats=(seat("a"), seat("b")),
    )
    council.run(text, code=5)
    path = council.session.directory / "checkpoint.json"
    sound = path.read_bytes()
    made = council.checkpoint()
    assert made["active_agents"][0]["session_id"] == council.member("a").id
    path.unlink()
    shown(council.session, "--rebuild")
    assert path.read_bytes() == sound, "the log gives the same bytes"
    flip(path, 1001)
    council.agh("gate approve", "--later")
    error = council.error("resume", code=DAMAGED)
    assert error["code"] == "checkpoint_damaged" and "--rebuild" in error["hint"]
    assert not council.session.is_live()
    rebuilt = shown(council.session, "--rebuild")
    assert rebuilt["rounds_completed"] == 1 and path.read_bytes() != sound, "a decision has come since"
    assert council.resume()["phase"] == "completed"
    assert len(list(council.session.directory.glob("*checkpoint*"))) == 1
