"""Ways back that a plugin adds, and what an agent's record says of those there are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.live import Session
from tests.support.resume import HEADER, RECALL, SEEN, WORDS, define, refused, restored, wait_until_gone
from tests.support.site import HEAD, Site

MEMENTO = """
from agh.adapters.restore import Gone, Impossible, Restored, Strategy

def restore(talk):
    {body}

@hookimpl
def agh_restore_strategies(register):
    register(Strategy("memento", {rank}, restore))
"""
WORKS = 'answer = talk.new(); return Restored(answer["sessionId"], answer)'


@pytest.fixture
def memento(site: Site, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Install the strategy `memento` with this body; keepers find it as commands do."""

    def install(body: str, rank: int = 1) -> None:
        site.add("memento", HEAD + MEMENTO.format(body=body, rank=rank))
        monkeypatch.setenv("PYTHONPATH", str(site.path))

    return install


def test_the_lowest_rank_is_tried_first(talked: Session, memento: Any) -> None:
    memento(WORKS)
    restore = restored(talked)
    assert (restore["strategy"], restore["context_lost"]) == ("memento", False)
    assert talked.events("session_resumed")[0].content["strategy"] == "memento"
    assert talked.meta()["restore"]["strategy"] == "memento"
    talked.agh("stop")
    restore = json.loads(talked.agh("resume", "-o", "json", env={"AGH_PLUGINS": "echo"}).stdout)["restore"]
    assert restore["strategy"] == "native_resume"


def test_a_higher_rank_is_tried_later(talked: Session, memento: Any) -> None:
    memento(WORKS, rank=35)
    assert restored(talked)["strategy"] == "native_resume"
    talked.agh("stop")
    assert restored(talked, "--caps none")["strategy"] == "memento"


def test_one_that_cannot_passes_it_on(talked: Session, memento: Any) -> None:
    memento('raise Impossible("no polaroids")')
    restore = restored(talked)
    assert restore["strategy"] == "native_resume"
    assert "memento: no polaroids" in restore["reason"]
    assert talked.say(RECALL) == SEEN


def test_one_that_knows_it_is_gone_is_believed(talked: Session, memento: Any) -> None:
    memento('raise Gone("the photos are burnt")')
    restore = restored(talked)
    assert (restore["strategy"], restore["context_lost"]) == ("inject_history", True)
    assert "the photos are burnt" in restore["reason"]
    assert HEADER in talked.say(RECALL)


def test_one_that_crashes_leaves_the_way_back(talked: Session, memento: Any) -> None:
    token = talked.meta()["acp_session_id"]
    memento("return 1 / 0")
    result = talked.agh("resume", code=None)
    assert result.returncode != 0
    assert "ZeroDivisionError" in result.stderr
    wait_until_gone(talked)
    status = talked.status()
    assert (status["state"], status["acp_session_id"]) == ("stopped", token)
    restore = json.loads(talked.agh("resume", "-o", "json", env={"AGH_PLUGINS": "echo"}).stdout)["restore"]
    assert restore["strategy"] == "native_resume"
    assert talked.say(RECALL) == SEEN


def test_one_that_crashes_is_named(talked: Session, memento: Any) -> None:
    memento("return 1 / 0")
    error = refused(talked, code=1)
    assert "memento" in error["message"]
    assert "--fresh" in error["hint"]


def test_an_agents_record_forbids_a_step(talked: Session) -> None:
    define(talked.live, "echo", restore_skip=["native_resume"])
    assert restored(talked)["strategy"] == "native_load"
    talked.agh("stop")
    define(talked.live, "echo", restore_skip=["native_resume", "native_load"])
    assert restored(talked)["strategy"] == "inject_history"
    assert f"[USER]: {WORDS}" in talked.say(RECALL)


def test_an_agent_restores_by_its_own_flags(talked: Session) -> None:
    before, state = talked.meta(), talked.live.home / "flags"
    define(talked.live, "echo", "--caps", "none", resume_argv=["--state", f"{state}/{{id}}"])
    restore = restored(talked)
    assert (restore["strategy"], restore["context_lost"]) == ("cli_resume", False)
    assert (state / before["acp_session_id"]).is_dir(), "the agent was started again with the id in its argv"
    agents = [process for process in talked.live.processes() if "agh_echo" in process.argv[:5]]
    assert [agent.pid for agent in agents] == [talked.agent], "there is one agent"
    assert talked.say("hello") == "echo: hello"
    meta = talked.meta()
    assert meta["acp_session_ids"] == [before["acp_session_id"], meta["acp_session_id"]]
