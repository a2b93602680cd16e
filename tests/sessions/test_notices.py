"""What an agent says about the session itself: notices and compactions, in the transcript and the recap."""

from __future__ import annotations

import json

from tests.support.live import Live

COMPACTED = "the agent compacted its context here"


def test_a_notice_is_not_the_models_words(live: Live) -> None:
    session = live.new()
    assert session.tell("/notice severity=warning The quota is nearly used up.\n/say hello") == "hello"
    (marker,) = session.events("transcript_marker.created")
    assert (marker.content["kind"], marker.content["severity"]) == ("agent_notice", "warning")
    assert marker.content["raw"]["title"] == "The quota is nearly used up."
    for verb in ("transcript", "recap"):
        assert "The quota is nearly used up." in session.agh(verb).stdout
    messages = json.loads(session.agh("transcript", "-o", "json").stdout)["messages"]
    assert [message["content"] for message in messages if message["role"] == "assistant"] == ["hello"]


def test_where_the_agent_compacted_its_context(live: Live) -> None:
    session = live.new()
    assert session.tell("/compact the gist\n/say hello") == "hello"
    assert session.markers() == ["context_compacted"]
    for verb in ("transcript", "recap"):
        assert session.agh(verb).stdout.count(COMPACTED) == 1
    assert COMPACTED in session.prompt("/compact again").stdout
    titles = [event.content["title"] for event in session.events("system")]
    assert titles.count("compaction_update: in_progress") == 2
    assert titles.count("compaction_summary_chunk") == 2


def test_a_compaction_that_is_told_again_is_one(live: Live) -> None:
    session = live.new()
    own = session.meta()["acp_session_id"]
    update = {"sessionUpdate": "compaction_update", "compactionId": "c1", "status": "completed"}
    frame = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": own, "update": update}}
    session.tell("\n".join([f"/raw {json.dumps(frame)}"] * 2))
    assert session.markers() == ["context_compacted"]
