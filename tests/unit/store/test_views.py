"""What the read commands show. Reading never writes, and one bad session never hides the others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agh.core.redaction.redact import redactor
from agh.errors import MetaInvalid
from agh.home import Session
from agh.store import views
from agh.store.writer import Writer
from tests.support.build import AT, Home, conversation, rows, says, take_lock, user
from tests.support.files import tree


def test_a_session_is_its_metadata_and_what_follows(home: Home) -> None:
    directory = home.session(conversation(), name="review")
    before = tree(home.path)
    view = views.session_view(Session.at(directory))
    assert (view["id"], view["name"], view["state"]) == (directory.name, "review", "stopped")
    assert (view["phase"], view["badge"], view["attachable"]) == ("completed", "stopped", False)
    assert tree(home.path) == before


@pytest.mark.parametrize(
    ("state", "reason", "kind"),
    [("starting", "error", "startup_failure"), ("active", "agent_crashed", "process_exit")],
)
def test_a_vanished_keeper_is_classified_on_read(home: Home, state: str, reason: str, kind: str) -> None:
    directory = home.session(conversation(), state=state, stop_reason=None, acp_session_id="acp-1")
    before = tree(home.path)
    with take_lock(directory):
        assert views.session_view(Session.at(directory))["state"] == state
    (listed,) = views.list_views()
    for view in (
        listed,
        views.session_view(Session.at(directory)),
        views.status_view(Session.at(directory), lambda _: True),
    ):
        assert (view["state"], view["stop_reason"], view["failure"]["kind"]) == ("stopped", reason, kind)
        assert view["stop_detail"] == "keeper ended without closing the session"
    notice = views.stop_notice(Session.at(directory))
    assert (notice["stop_reason"], notice["failure"]["kind"]) == (reason, kind)
    assert tree(home.path) == before


def test_the_list_is_by_newest_activity_and_filtered(home: Home) -> None:
    for number, at in enumerate(["2026-01-02", "2026-01-03", "2026-01-01"]):
        home.directory(id=f"sess-aaaaaaa{number}", updated_at=at)
    home.directory(id="sess-aaaaaaa9", updated_at="2026-01-02")
    assert [view["id"][-1] for view in views.list_views()] == ["1", "9", "0", "2"]
    assert [view["id"][-1] for view in views.list_views(lambda view: view["updated_at"] > "2026-01-02")] == [
        "1"
    ]


def test_no_sessions(private_home: Path) -> None:
    assert views.list_views() == []
    assert not private_home.exists()


def test_a_damaged_session_is_listed_as_such(home: Home) -> None:
    good = home.directory()
    bad = home.directory()
    (bad / "meta.json").write_text('{"id": "se')
    before = tree(home.path)
    by_id = {view["id"]: view for view in views.list_views()}
    assert by_id[good.name]["badge"] == "stopped"
    assert (by_id[bad.name]["state"], by_id[bad.name]["badge"]) == ("unknown", "unknown")
    assert by_id[bad.name]["error"]["code"] == "meta_invalid"
    assert tree(home.path) == before
    with pytest.raises(MetaInvalid):
        views.session_view(Session.at(bad))


@pytest.mark.parametrize(
    "fields",
    [{"updated_at": 5}, {"attach": "me"}],
)
def test_metadata_of_a_wrong_type_hides_no_other_session(home: Home, fields: dict[str, Any]) -> None:
    good = home.directory()
    home.directory(**fields)
    assert good.name in [view["id"] for view in views.list_views()]


@pytest.mark.parametrize(
    ("answers", "reason", "running"), [(True, "already_running", True), (False, "stale_execution", False)]
)
def test_the_keeper_is_asked_while_the_lock_is_held(
    home: Home, answers: bool, reason: str, running: bool
) -> None:
    directory = home.session(conversation(), state="active", stop_reason=None)
    asked = []
    with take_lock(directory):
        view = views.status_view(Session.at(directory), lambda path: bool(asked.append(path)) or answers)
    assert asked == [Session.at(directory)]
    assert (view["resume_reason"], view["is_agent_running"], view["needs_resume"]) == (reason, running, False)


def test_nobody_is_asked_when_nobody_holds_it(home: Home) -> None:
    directory = home.session(conversation(), state="active", acp_session_id="acp-1")

    def answers(session: Session) -> bool:
        raise AssertionError("the lock is free: there is no keeper to ask")

    view = views.status_view(Session.at(directory), answers)
    assert (view["needs_resume"], view["resume_reason"]) == (True, "agent_not_running")


def test_the_last_object_of_a_stream(home: Home) -> None:
    failure = {
        "kind": "process_exit",
        "summary": "provider exited with status 1",
        "crash_bundle_path": "/x.json",
    }
    directory = home.session(stop_reason="agent_crashed", failure=failure)
    assert views.stop_notice(Session.at(directory)) == {
        "id": f"session-stopped-{directory.name}",
        "session_id": directory.name,
        "type": "session_stopped",
        "stop_reason": "agent_crashed",
        "failure": failure,
        "timestamp": AT,
    }


def test_messages_are_the_transcript_of_the_log(home: Home) -> None:
    directory = home.session(conversation())
    assert [message["role"] for message in views.messages(Session.at(directory))] == [
        "user",
        "assistant",
        "tool_call",
        "tool_result",
        "assistant",
        "marker",
    ]


def test_a_recap_counts_what_waits(home: Home) -> None:
    directory = home.session(conversation(), state="active")
    with take_lock(directory) as owner:
        with Writer(owner, "general") as log, log.transaction() as db:
            for status, generation in (("queued", 2), ("queued", 3), ("sent", 1)):
                db.execute(
                    "INSERT INTO inputs (generation, mode, status, prompt, turn_id, created_at, updated_at) "
                    "VALUES (?, 'queue', ?, 'x', 't', '', '')",
                    [generation, status],
                )
            for request, status in (("r1", "pending"), ("r2", "decided")):
                db.execute(
                    "INSERT INTO permissions (request_id, turn_id, status, action, request, created_at) "
                    "VALUES (?, 't', ?, 'write', '{}', '')",
                    [request, status],
                )
        summary = views.recap_view(Session.at(directory), 2, redactor({}), AT)
    assert summary["session"] == {"id": directory.name, "badge": "idle", "state": "active"}
    assert (summary["pending_inputs"], summary["pending_permissions"]) == (2, 1)
    assert len(summary["recent_messages"]) == 2 and summary["omitted"]["messages"] == 3
    assert summary["snapshot"] == {
        "generated_at": AT,
        "event_cursor": len(conversation()),
        "transcript_cursor": len(conversation()),
        "queue_generation": 3,
        "consistency": "persisted_reads",
    }


def test_the_same_log_gives_the_same_recap_and_stays_as_it_is(home: Home) -> None:
    directory = home.session([*conversation(), user("use hunter2-hunter2"), says("ok")])
    before = tree(home.path)
    secrets = redactor({"MY_PASSWORD": "hunter2-hunter2"})
    summaries = [json.dumps(views.recap_view(Session.at(directory), 20, secrets, AT)) for _ in range(2)]
    assert summaries[0] == summaries[1]
    assert "hunter2" not in summaries[0]
    later = views.recap_view(Session.at(directory), 20, secrets)
    assert later["snapshot"].pop("generated_at") > AT
    assert tree(home.path) == before
    assert len(views.messages(Session.at(directory))) == len(rows(conversation())) - 2
