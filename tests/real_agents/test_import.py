"""A conversation that a real agent kept by itself: imported, read, and gone on with in its own memory."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.real_agents.standin import Standin
from tests.real_agents.steps import LIMIT, say, start, stop, the_request
from tests.support.live import Live

pytestmark = [pytest.mark.real_agents, pytest.mark.timeout(400)]


def test_a_rollout_of_codex(live: Live, standin: Standin, tmp_path: Path) -> None:
    origin = start(live, "codex")
    answer = say(origin, "alpha")
    path = live.workspace / "made.txt"
    turn_id = origin.prompt(f"beta [write {path} written]", "--detach", timeout=LIMIT).stdout.strip()
    origin.agh("wait", "--until", "permission", "--timeout", f"{LIMIT}s")
    origin.agh("approve")
    origin.agh("wait", "--until", "idle", "--timeout", f"{LIMIT}s")
    last = origin.text(turn_id)
    token = origin.meta()["acp_session_id"]
    stop(origin)
    shutil.rmtree(origin.directory)
    (report,) = json.loads(live.agh("session", "import", "--from", "codex", "-o", "json").stdout)["imports"]
    session = live.session(report["session_id"])
    meta = session.meta()
    assert (meta["acp_session_id"], meta["agent_name"], meta["turns"]) == (token, "codex", 2)
    assert meta["workspace_path"] == str(live.workspace)
    documents = [json.loads(line) for line in session.agh("transcript", "-o", "jsonl").stdout.splitlines()]
    contents = [
        document["content"]
        for document in documents
        if document["role"] in ("user", "assistant") and document["content"]
    ]
    assert contents == ["alpha", answer, f"beta [write {path} written]", last]
    assert [document["role"] for document in documents if document["role"].startswith("tool")] == [
        "tool_call",
        "tool_result",
    ]
    assert session.events("system") == []
    assert say(session, "gamma").startswith("SEEN 3 user texts")
    assert the_request(standin, "gamma").texts[0] == "alpha"
    (resumed,) = session.events("session_resumed")
    assert resumed.content["strategy"] in ("native_resume", "native_load")
    (again,) = json.loads(live.agh("session", "import", "--from", "codex", "-o", "json").stdout)["imports"]
    assert (again["session_id"], again["status"]) == (session.id, "skipped")
    session.check_log()
    stop(session)
