"""Kinds of sessions: who keeps one is told by the plugin that offers it."""

from __future__ import annotations

import json

from tests.support.live import Live

NOT_INSTALLED = 9


def test_a_session_of_a_kind_that_nobody_keeps(live: Live) -> None:
    session = live.new()
    session.stop()
    path = session.directory / "meta.json"
    path.write_text(json.dumps({**session.meta(), "kind": "quartet"}))
    before = path.read_bytes()
    error = session.error("resume", code=NOT_INSTALLED)
    assert (error["code"], error["hint"]) == ("kind_unknown", "agh plugins list")
    assert "quartet" in error["message"]
    assert session.error("checkpoint", "--rebuild", code=NOT_INSTALLED)["code"] == "kind_unknown"
    assert session.error("fork", code=2)["message"] == "a quartet cannot be forked"
    assert not session.is_live() and path.read_bytes() == before, "nothing was started or changed"
    assert "quartet" in session.agh("status", "-o", "json").stdout, "it can be read all the same"
