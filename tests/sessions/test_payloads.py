"""What scripts read of a session: lease, workspace, usage and restore, as the contract says."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.live import Live, Session
from tests.support.resume import restored


def test_a_session_is_attachable_for_its_holder(live: Live) -> None:
    session = live.new()
    mine = json.loads(session.agh("resume", "--holder", "me", "-o", "json").stdout)["session"]
    assert (mine["attached_to"], mine["attachable"]) == ("me", True)
    assert session.status()["attachable"] is False, "this terminal is not the holder"
    session.agh("resume", "--steal")
    assert session.status()["attachable"] is True
    (view,) = json.loads(live.agh("session", "list", "-o", "json").stdout)["sessions"]
    assert view["attachable"] is True


def test_a_workspace_always_has_an_id(live: Live, tmp_path: Path) -> None:
    session = live.new()
    session.tell("hello")
    workspace_id = session.status()["workspace_id"]
    assert workspace_id.startswith("ws-")
    assert session.meta()["workspace_id"] == workspace_id
    events = session.agh("events").stdout.splitlines()
    assert {json.loads(line)["workspace_id"] for line in events} == {workspace_id}
    listed = live.agh("session", "list", "--workspace", workspace_id, "-o", "json").stdout
    assert [view["id"] for view in json.loads(listed)["sessions"]] == [session.id]
    other = tmp_path / "other"
    other.mkdir()
    elsewhere = live.new(args=("--workspace", other))
    assert elsewhere.status()["workspace_id"] != workspace_id
    document = json.loads(live.agh("workspace", "add", ".", "-o", "json").stdout)["workspace"]
    assert document["id"] == workspace_id, "registering it does not change it"


def test_a_session_of_before_has_one_too(live: Live) -> None:
    session = live.new()
    session.tell("hello")
    session.stop()
    workspace_id = session.meta()["workspace_id"]
    (session.directory / "meta.json").write_text(json.dumps(session.meta() | {"workspace_id": None}))
    assert session.status()["workspace_id"] == workspace_id
    first = json.loads(session.agh("events", "--last", "1").stdout)
    assert first["workspace_id"] == workspace_id


def test_usage_has_its_time_and_no_nulls(live: Live) -> None:
    session = live.new()
    session.tell("/usage 10 5 0.4\n/say hello")
    usages = [event.content["usage"] for event in session.events("usage")]
    assert usages
    for event, usage in zip(session.events("usage"), usages, strict=True):
        assert usage["timestamp"] == event.content["timestamp"]
        assert None not in usage.values()
    (end,) = session.events("done")
    assert end.content["usage"]["output_tokens"]
    assert None not in end.content["usage"].values()


def test_a_restore_has_no_empty_words(talked: Session) -> None:
    restore = restored(talked, "--on-resume not-found")
    assert "meant" not in restore
    talked.stop()
    restore = json.loads(talked.agh("resume", "--fresh", "-o", "json").stdout)["restore"]
    assert restore["meant"]
