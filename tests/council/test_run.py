"""A council of three embedded agents: to its memo in one go, paused in between, or steered."""

from __future__ import annotations

import json

from tests.council.support import BRIEF, SEATS, Council, profile, seat
from tests.support.live import wait_until


def test_four_rounds_to_a_memo(council: Council) -> None:
    view = council.run(profile())
    assert (view["phase"], view["rounds_completed"], view["stop_reason"]) == ("completed", 4, "completed")
    assert [one["status"] for one in view["rounds"]] == ["closed"] * 4
    assert [len(one["delegations"]) for one in view["rounds"]] == [3] * 4
    memo = council.live.workspace / "memo.md"
    assert view["memo"] == str(memo)
    text = memo.read_text()
    assert text.startswith("# Memo: review\n") and BRIEF in text
    assert text.index("### chair") < text.index("### advocate") < text.index("### skeptic")
    council.session.check_log()
    assert not any(council.member(id).is_live() for id in SEATS), "agents are dismissed"


def test_the_council_is_a_session_like_any_other(council: Council) -> None:
    council.run(profile())
    session = council.session
    listed = json.loads(session.live.agh("session", "list", "-o", "json").stdout)["sessions"]
    assert {one["id"] for one in listed} == {council.id, *(council.member(id).id for id in SEATS)}
    events = [json.loads(line) for line in session.agh("events").stdout.splitlines()]
    assert [one["sequence"] for one in events] == list(range(1, len(events) + 1))
    history = json.loads(session.agh("history", "-o", "json").stdout)
    assert [one["turn_id"] for one in history["turns"]] == [f"round-{n}" for n in (1, 2, 3, 4)]
    messages = json.loads(session.agh("transcript", "-o", "json").stdout)["messages"]
    said = [one for one in messages if one["role"] == "assistant"]
    assert len(said) == 12 and {one["agent_id"] for one in said} == set(SEATS)
    assert "\nchair: echo: Round 4" in session.agh("transcript", "-o", "text").stdout
    recap = json.loads(session.agh("recap", "-o", "json").stdout)["recap"]
    assert recap["session"]["badge"] == "stopped" and recap["recent_messages"]
    assert session.agh("repair", "--force").stdout.split() == [council.id, "ok"]
    assert session.status()["resume_reason"] == "completed"


def test_members_speak_in_parallel_and_the_chair_after_them(council: Council) -> None:
    council.run(profile("[constraints]\nrounds = { max = 1 }\n"), brief="/sleep 0.6")
    starts = {
        id: next(one.content["timestamp"] for one in council.member(id).events("user_message"))
        for id in SEATS
    }
    ends = {id: council.member(id).events("done")[0].content["timestamp"] for id in SEATS}
    assert max(starts["advocate"], starts["skeptic"]) < min(ends["advocate"], ends["skeptic"])
    assert starts["chair"] > max(ends["advocate"], ends["skeptic"])


def test_paused_after_round_two_and_resumed_is_the_same(council: Council) -> None:
    council.run(profile())
    whole, memo = council.outcome(), (council.live.workspace / "memo.md").read_text()
    (council.live.workspace / "memo.md").unlink()
    council.open(profile(), env={"AGH_ECHO_OPTIONS": "--slow 0.02"})
    council.wait_for(lambda state: state.rounds_completed == 1)
    council.agh("pause", "--after-round")
    state = council.state()
    assert (state.rounds_completed, state.open_round) == (2, None)
    assert council.session.meta()["stop_reason"] == "paused"
    assert council.session.events()[-1].type == "session_paused"
    assert not any(council.member(id).is_live() for id in SEATS)
    made = council.checkpoint()
    assert made["constraint_state"]["rounds_completed"] == made["rounds_completed"] == 2
    assert {one["agent_id"] for one in made["active_agents"]} == set(SEATS)
    view = council.resume()
    assert view["phase"] == "completed"
    assert council.outcome() == whole
    assert (council.live.workspace / "memo.md").read_text() == memo
    assert council.session.count("session_resumed") == 1
    for id in SEATS:
        assert council.member(id).meta()["restore"]["strategy"] == "native_resume"
        assert not any("Session Context" in text for text in council.prompts(id)), "it has its own memory"


def test_paused_in_the_middle_of_a_round_and_resumed_is_the_same(council: Council) -> None:
    slow = profile("[constraints]\nrounds = { max = 2 }\n")
    council.run(slow, brief="/sleep 0.3\n/say well")
    whole = council.outcome()
    council.open(slow, brief="/sleep 0.3\n/say well")
    council.wait_for(lambda state: any(one.status == "sent" for one in state.delegations.values()))
    council.agh("pause")
    state = council.state()
    assert state.open_round is not None
    assert {one["status"] for one in council.checkpoint()["pending_delegations"]} == {"pending"}
    council.session.check_log()
    assert council.resume()["phase"] == "completed"
    assert council.outcome() == whole


def test_session_pause_and_session_resume_do_the_same(council: Council) -> None:
    council.open(profile(), brief="/sleep 0.3")
    council.wait_for(lambda state: state.delegations)
    assert council.session.status()["badge"] == "running"
    council.session.agh("pause")
    assert council.session.status()["badge"] == "paused"
    council.session.agh("resume")
    council.wait_stopped()
    assert council.status()["phase"] == "completed"


def test_a_council_that_is_over_stays_over(council: Council) -> None:
    council.run(profile("[constraints]\nrounds = { max = 1 }\n"))
    before = council.session.events()
    assert council.resume()["phase"] == "completed"
    assert council.session.events() == before


def test_steering_reaches_the_next_round(council: Council) -> None:
    council.open(profile(), brief="/sleep 0.3")
    council.wait_for(lambda state: state.delegations)
    council.agh("steer", "mind the costs")
    council.agh("steer", "you alone", "--to", "skeptic")
    council.wait_stopped()
    for id in SEATS:
        lines = [line for text in council.prompts(id) for line in text.splitlines()]
        assert lines.count("Note from the operator: mind the costs") == 1
        assert lines.count("Note from the operator, for you alone: you alone") == (id == "skeptic")
    assert council.error("steer", "x", "--to", "nobody", code=4)["code"] == "member_unknown"


def test_steering_a_paused_council(council: Council) -> None:
    council.open(profile(), brief="/sleep 0.3")
    council.wait_for(lambda state: state.delegations)
    council.agh("pause")
    council.agh("steer", "mind the costs")
    council.resume()
    assert any("mind the costs" in text for text in council.prompts("advocate"))


def test_ctrl_c_pauses_and_loses_nothing(council: Council) -> None:
    import signal

    given, question = council.files(profile(), brief="/sleep 0.5")
    command = council.live.start("council", "run", given, "--brief", question)
    wait_until(council.live.sessions)
    council.id = council.live.sessions()[0].id
    council.wait_for(lambda state: any(one.status == "sent" for one in state.delegations.values()))
    command.send_signal(signal.SIGINT)
    out, err = command.communicate(timeout=20)
    assert command.returncode == 6, (out, err)
    assert b"agh council resume" in err
    assert council.resume()["phase"] == "completed"


def test_a_scripted_round_robin_and_targeted_rounds(council: Council) -> None:
    robin = profile('[delegation]\ndefault = "round_robin"\nopening_rounds = 1\n')
    council.run(robin)
    assert [one.targets for one in council.state().rounds.values()] == [
        list(SEATS), ["advocate"], ["skeptic"], ["chair"],
    ]  # fmt: skip
    pairs = '[delegation]\ndefault = "targeted"\ntension_pairs = [["advocate", "skeptic"]]\nbias_limit = 2\n'
    council.run(profile(pairs))
    targets = [one.targets for one in council.state().rounds.values()]
    assert targets[1:3] == [["advocate", "skeptic"]] * 2
    assert targets[3] == list(SEATS), "the bias limit brings the others back"


def test_without_a_maximum_the_minimum_is_the_plan(council: Council) -> None:
    two = profile("[constraints]\nrounds = { min = 3 }\n[delegation]\n", seats=(seat("a"), seat("b")))
    assert council.run(two)["rounds_completed"] == 3
