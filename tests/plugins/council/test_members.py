"""Members as sessions of their own: orchestrated, with children and scratch pads, lost and found."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from tests.plugins.council.support import BRIEF, Council, oracle, perspective, profile
from tests.support.live import ECHO
from tests.support.processes import kill
from tests.support.wait import wait_until

ONE_ROUND = "[constraints]\nrounds = { max = 1 }\n[delegation]\n"


def test_an_orchestrator_leads_and_a_member_has_a_member(council: Council, tmp_path: Path) -> None:
    lead = oracle(
        tmp_path / "lead.json",
        "/say " + json.dumps({"action": "broadcast", "message": "Speak."}),
        "/say no JSON this time",
        "/say " + json.dumps({"action": "end", "memo": "# Led to this"}),
    )
    wish = {"delegate": [{"id": "tax", "role": "Know taxes.", "message": "/say taxes are low"}]}
    able = oracle(tmp_path / "able.json", f"/say {json.dumps(wish)}", "/say told", "/say still so")
    perspectives = (perspective("able", command=able), perspective("plain"))
    head = "orchestrator = { command = " + json.dumps(lead) + " }\n"
    text = profile(
        "[constraints]\nrounds = { max = 3 }\n[delegation]\nmax_depth = 1\n",
        perspectives=perspectives,
        head=head,
    )
    view = council.run(text)
    assert [round_["fallback"] for round_ in view["rounds"]] == [
        None,
        "the orchestrator's answer has no JSON action",
    ]
    assert (council.live.workspace / "memo.md").read_text() == "# Led to this"
    state = council.state()
    assert state.delegations["r1-able+"].answer == "told"
    child = state.members["able/tax"]
    assert (child.parent_agent_id, child.depth) == ("able", 1)
    assert "Your role: Know taxes." in council.prompts("able/tax")[0]
    assert state.delegations["r1-able/tax"].answer.startswith("{"), "it runs its parent's agent"
    assert {message["agent_id"] for message in state.tail("able")} == {"able", "able/tax"}
    assert {message["agent_id"] for message in state.tail("plain")} == {"plain"}
    first = council.prompts("plain")[0]
    assert f"The brief of the council:\n> {BRIEF}" in first and "=== CURRENT REQUEST ===\nSpeak.\n" in first


def test_a_scratch_pad_is_the_agents_and_survives(council: Council, tmp_path: Path) -> None:
    script = tmp_path / "a.json"
    perspectives = (perspective("a", command=oracle(script, "/say begun\n/sleep 30")),)
    gated = "[constraints]\nrounds = { max = 2 }\n[delegation]\n[[gates]]\nafter_round = 1\n"
    council.open(profile("[expertise]\nenabled = true\n" + gated, perspectives=perspectives))
    council.wait_for(lambda state: state.members)
    council.member("a").wait_for_text("begun")
    pad = council.live.workspace / ".agh-council" / council.id / "a.md"
    assert str(pad) in council.prompts("a")[0]
    council.agh("pause")
    oracle(script, "", f"/write {pad} learned something", "/say done")
    council.resume(code=5)
    assert pad.read_text() == "learned something", "no permission is asked for"
    assert council.checkpoint()["active_agents"][0]["expertise_snapshot"] == "learned something"
    pad.unlink()
    council.agh("gate approve")
    assert pad.read_text() == "learned something", "it is written again from the log"


def test_a_member_whose_keeper_dies_is_revived_and_asked(council: Council, tmp_path: Path) -> None:
    """With on_unknown = ask, the prompt says that the answer got lost, and contains the forgotten past."""
    answers = oracle(tmp_path / "a.json", "/say one", "/say begun\n/sleep 30", "/say recovered")
    perspectives = (perspective("a", command=f"{answers} --caps none"),)
    text = profile(
        '[failure]\non_unknown = "ask"\n[constraints]\nrounds = { max = 2 }\n[delegation]\n',
        perspectives=perspectives,
    )
    council.open(text)
    council.wait_for(lambda state: state.rounds_completed == 1)
    council.member("a").wait_for_text("begun")
    council.member("a").kill_keeper()
    council.wait_stopped()
    state = council.state()
    assert (council.status()["phase"], state.delegations["r2-a"].tries) == ("completed", 2)
    statuses = [
        event.content["council"]["status"]
        for event in council.session.events("system")
        if event.content["council"].get("id") == "r2-a"
    ]
    assert statuses == ["pending", "sent", "unknown", "pending", "sent"]
    last = council.prompts("a")[-1]
    assert "The answer to this request got lost." in last
    above, _, _ = last.partition("=== CURRENT REQUEST ===")
    assert "## Session Context (Resumed)" in above and "You answered:\n> one" in above
    assert last.count("## Session Context") == 1 and "EXECUTION HISTORY" not in last


def test_a_member_that_cannot_start_is_skipped(council: Council) -> None:
    perspectives = (perspective("a"), perspective("gone", command=shlex.join([*ECHO, "--no-such-option"])))
    view = council.run(profile(ONE_ROUND, perspectives=perspectives))
    assert [delegation["status"] for delegation in view["rounds"][0]["delegations"]] == ["answered", "failed"]
    assert "no answer from gone" in (council.live.workspace / "memo.md").read_text()


def test_a_killed_council_leaves_members_that_are_found_again(council: Council) -> None:
    pair = ("advocate", "skeptic")
    council.open(profile(ONE_ROUND, perspectives=tuple(map(perspective, pair))), brief="/sleep 1\n/say here")
    council.wait_for(
        lambda state: sum(delegation.status == "sent" for delegation in state.delegations.values()) == 2
    )
    agents = {id: council.member(id).agent for id in pair}
    kill(council.session.keeper)
    council.wait_stopped()
    status = council.session.status()
    assert (status["badge"], status["needs_resume"]) == ("failed", True)
    council.session.agh("repair")
    view = council.resume()
    assert view["phase"] == "completed"
    for id in pair:
        sent = [text for text in council.prompts(id) if "/sleep 1" in text]
        assert len(sent) == 1, "what it was asked before the death was not sent again"
        assert council.member(id).count("session_resumed") == 0, f"{agents[id]} went on all the while"
    wait_until(lambda: not council.live.processes())
