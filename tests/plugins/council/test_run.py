"""A council of three embedded agents: to its memo in one go, paused in between, or steered."""

from __future__ import annotations

import json
import signal

from tests.plugins.council.pure import simulated
from tests.plugins.council.support import BRIEF, MEMBERS, Council, perspective, profile
from tests.support.wait import wait_until

PAIR = (perspective("advocate"), perspective("skeptic"))
TWO_ROUNDS = profile("[constraints]\nrounds = { max = 2 }\n", perspectives=PAIR)
ALONE = profile("[constraints]\nrounds = { max = 2 }\n[delegation]\n", perspectives=PAIR[:1])


def test_four_rounds_to_a_memo(council: Council) -> None:
    view = council.run(profile())
    assert (view["phase"], view["rounds_completed"], view["stop_reason"]) == ("completed", 4, "completed")
    assert [round_["status"] for round_ in view["rounds"]] == ["closed"] * 4
    assert [len(round_["delegations"]) for round_ in view["rounds"]] == [3] * 4
    memo = council.live.workspace / "memo.md"
    assert view["memo"] == str(memo)
    text = memo.read_text()
    assert text.startswith("# Memo: review\n") and BRIEF in text
    assert text.index("### chair") < text.index("### advocate") < text.index("### skeptic")
    council.session.check_log()
    assert council.outcome() == simulated(profile(), BRIEF), "as the driver says, and nothing else"
    assert not any(council.member(id).is_live() for id in MEMBERS), "agents are stopped"
    check_like_any_other(council)


def check_like_any_other(council: Council) -> None:
    """Check that the council is a session like any other."""
    session = council.session
    listed = json.loads(session.live.agh("session", "list", "-o", "json").stdout)["sessions"]
    assert {session["id"] for session in listed} == {council.id, *(council.member(id).id for id in MEMBERS)}
    events = [json.loads(line) for line in session.agh("events").stdout.splitlines()]
    assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
    history = json.loads(session.agh("history", "-o", "json").stdout)
    assert [turn["turn_id"] for turn in history["turns"]] == [f"round-{n}" for n in (1, 2, 3, 4)]
    messages = json.loads(session.agh("transcript", "-o", "json").stdout)["messages"]
    answers = [message for message in messages if message["role"] == "assistant"]
    assert len(answers) == 12 and {message["agent_id"] for message in answers} == set(MEMBERS)
    assert "\nchair: echo: Round 4" in session.agh("transcript", "-o", "text").stdout
    recap = json.loads(session.agh("recap", "-o", "json").stdout)["recap"]
    assert recap["session"]["badge"] == "stopped" and recap["recent_messages"]
    assert session.agh("repair", "--force").stdout.split() == [council.id, "ok"]
    assert session.status()["resume_reason"] == "completed"


def test_paused_after_round_two_and_resumed_is_the_same(council: Council) -> None:
    pairs = '[delegation]\nopening_rounds = 2\ntension_pairs = [["advocate", "skeptic"]]\n'
    whole = simulated(profile(pairs), "/sleep 0.4\n/say well")
    council.open(profile(pairs), brief="/sleep 0.4\n/say well")
    council.wait_for(lambda state: 2 in state.rounds)
    council.session.call("pause_after_round")
    council.wait_stopped()
    state = council.state()
    assert (state.rounds_completed, state.open_round) == (2, None)
    assert council.session.meta()["stop_reason"] == "paused"
    assert council.session.events()[-1].type == "session_paused"
    assert not any(council.member(id).is_live() for id in MEMBERS)
    checkpoint = council.checkpoint()
    assert checkpoint["constraint_state"]["rounds_completed"] == checkpoint["rounds_completed"] == 2
    assert {agent["agent_id"] for agent in checkpoint["active_agents"]} == set(MEMBERS)
    view = council.resume()
    assert view["phase"] == "completed"
    assert council.outcome() == whole
    assert (council.live.workspace / "memo.md").read_text() == whole["memo"]
    assert council.session.count("session_resumed") == 1
    starts = {id: council.member(id).events("user_message")[0].content["timestamp"] for id in MEMBERS}
    ends = {id: council.member(id).events("done")[0].content["timestamp"] for id in MEMBERS}
    assert max(starts["advocate"], starts["skeptic"]) < min(ends["advocate"], ends["skeptic"]), "in parallel"
    assert starts["chair"] > max(ends["advocate"], ends["skeptic"]), "and the chair after them"
    for id in MEMBERS:
        assert council.member(id).meta()["restore"]["strategy"] == "native_resume"
        assert not any("Session Context" in text for text in council.prompts(id)), "it has its own memory"


def test_paused_in_the_middle_of_a_round_and_resumed_is_the_same(council: Council) -> None:
    council.open(TWO_ROUNDS, brief="/sleep 0.5\n/say well")
    council.wait_for(
        lambda state: any(delegation.status == "sent" for delegation in state.delegations.values())
    )
    council.session.call("stop", reason="paused")
    council.wait_stopped()
    state = council.state()
    assert state.open_round is not None
    assert {delegation["status"] for delegation in council.checkpoint()["pending_delegations"]} == {"pending"}
    council.session.check_log()
    assert council.resume()["phase"] == "completed"
    assert council.outcome() == simulated(TWO_ROUNDS, "/sleep 0.5\n/say well")


def test_session_pause_and_resume_do_the_same_and_it_is_steered_in_between(council: Council) -> None:
    council.open(ALONE, brief="/sleep 1.5")
    council.wait_for(lambda state: state.delegations)
    assert council.session.status()["badge"] == "running"
    council.session.agh("pause")
    assert council.session.status()["badge"] == "paused"
    council.agh("steer", "mind the costs")
    council.session.agh("resume")
    council.wait_stopped()
    assert council.status()["phase"] == "completed"
    assert any("mind the costs" in text for text in council.prompts("advocate"))
    before = council.session.events()
    assert council.resume()["phase"] == "completed"
    assert council.session.events() == before, "a council that is over stays over"


def test_steering_reaches_the_next_round(council: Council) -> None:
    council.open(TWO_ROUNDS, brief="/sleep 0.4")
    council.wait_for(lambda state: state.delegations)
    council.session.call("steer", text="mind the costs")
    council.session.call("steer", text="you alone", to="skeptic")
    council.wait_stopped()
    for id in ("advocate", "skeptic"):
        lines = [line for text in council.prompts(id) for line in text.splitlines()]
        assert lines.count("Note from the operator: mind the costs") == 1
        assert lines.count("Note from the operator, for you alone: you alone") == (id == "skeptic")
    assert council.error("steer", "x", "--to", "nobody", code=4)["code"] == "member_unknown"


def test_ctrl_c_pauses_and_loses_nothing(council: Council) -> None:
    profile_path, brief_path = council.files(ALONE, brief="/sleep 1")
    command = council.live.start("council", "run", profile_path, "--brief", brief_path)
    wait_until(lambda: any((session.directory / "meta.json").exists() for session in council.live.sessions()))
    council.id = council.live.sessions()[0].id
    council.wait_for(
        lambda state: any(delegation.status == "sent" for delegation in state.delegations.values())
    )
    command.send_signal(signal.SIGINT)
    out, err = command.communicate(timeout=20)
    assert command.returncode == 6, (out, err)
    assert b"agh council resume" in err
    assert council.resume()["phase"] == "completed"
