"""What a council does next is decided by its log alone."""

from __future__ import annotations

import json

import pytest
from agh_council import actions, limits, prompts
from agh_council.fold import fold
from agh_council.json_answers import Choice, find_object, parse_child_requests, parse_choice
from agh_council.planner import next_action
from agh_council.state import Delegation

from tests.plugins.council.pure import Simulated
from tests.plugins.council.support import MEMBERS, perspective, profile

ONE_ROUND = "[constraints]\nrounds = { max = 1 }\n"


def orchestrated(*parts: str) -> str:
    return profile(*parts, head='orchestrator = "echo"\n')


def test_the_scripted_plan() -> None:
    council = Simulated(profile())
    assert council.run() == actions.Finish()
    assert council.targets() == [list(MEMBERS)] * 4
    kinds = [type(action).__name__ for action in council.actions]
    round_of = ["OpenRound", "Delegate", "Send", "Delegate", "Send", "CloseRound"]  # the chair comes second
    assert kinds == round_of * 4 + ["WriteMemo", "Finish"]


def test_the_tension_of_a_pair_begins_after_the_opening() -> None:
    council = Simulated(profile())
    council.run()
    delegations = council.state.delegations
    assert "skeptic" not in delegations["r1-advocate"].message
    assert "skeptic said in round 1:\n> skeptic on round 1" in delegations["r2-advocate"].message
    assert "advocate said in round 1:\n> advocate on round 1" in delegations["r2-skeptic"].message
    assert "advocate says in this round:" in delegations["r2-chair"].message


def test_round_robin_targeted_and_the_bias_limit() -> None:
    council = Simulated(profile('[delegation]\ndefault = "round_robin"\n'))
    council.run()
    assert council.targets() == [list(MEMBERS), ["advocate"], ["skeptic"], ["chair"]]
    pairs = '[delegation]\ndefault = "targeted"\ntension_pairs = [["advocate", "skeptic"]]\nbias_limit = 2\n'
    council = Simulated(profile(pairs))
    council.run()
    assert council.targets() == [list(MEMBERS), *[["advocate", "skeptic"]] * 2, list(MEMBERS)]


def test_steps_have_their_own_members_and_instructions() -> None:
    steps = (
        '[[steps]]\nname = "draft"\nrounds = 2\nmembers = ["advocate"]\ninstruction = "Draft it."\n'
        '[[steps]]\nname = "review"\ninstruction = "Review it."\n'
        '[[gates]]\nafter_step = "draft"\nprompt = "Good?"\n'
    )
    council = Simulated(profile(steps))
    assert council.run() == actions.Pause("paused", "gate: Good?")
    assert council.targets() == [["advocate"]] * 2
    council.decide("rejected", "shorter")
    assert council.state.rounds_completed == 0, "the whole step is done again"
    assert council.run() == actions.Pause("paused", "gate: Good?")
    again = council.state.delegations["r1.2-advocate"]
    assert "The operator rejected the last result: shorter" in again.message and "Draft it." in again.message
    assert "shorter" not in council.state.delegations["r2.2-advocate"].message
    council.decide("approved")
    assert council.run() == actions.Finish()
    assert council.targets() == [["advocate"], ["advocate"], list(MEMBERS)]


def test_a_gate_is_asked_once_per_attempt() -> None:
    council = Simulated(profile("[[gates]]\nafter_round = 2\n"))
    council.run()
    assert next_action(council.state) == actions.Pause("paused", "gate: Go on?")
    council.decide("rejected", "why so?")
    assert isinstance(council.run(), actions.Pause)
    assert council.state.rounds[2].attempt == 2
    council.decide("approved")
    assert council.run() == actions.Finish()
    assert [round_.attempt for round_ in council.state.rounds.values()] == [1, 2, 1, 1]


@pytest.mark.parametrize("policy", ["skip", "abort_round", "pause"])
def test_what_is_done_about_a_member_that_fails(policy: str) -> None:
    broken = {"skeptic"}

    def answer(delegation: Delegation) -> tuple[str, str]:
        return ("failed", "it broke") if delegation.target in broken else ("answered", "fine")

    council = Simulated(profile(f'[failure]\non_agent_failure = "{policy}"\n'), answer)
    ended = council.run()
    if policy == "pause":
        assert ended == actions.Pause("paused", "skeptic failed: it broke")
        assert next_action(council.state) == ended, "it stays paused until it is resumed"
        broken.clear()
        council.resume()
        assert council.run() == actions.Finish()
        assert council.state.delegations["r1-skeptic"].answer == "fine"
    else:
        assert ended == actions.Finish()
        status = {"skip": "closed", "abort_round": "aborted"}[policy]
        assert [round_.status for round_ in council.state.rounds.values()] == [status] * 4
        assert "### skeptic\n\nNo answer." in (council.state.memo or {})["text"]
        assert ("r1-chair" in council.state.delegations) is (policy == "skip")


def test_a_required_member_is_not_skipped() -> None:
    perspectives = (perspective("advocate", required=True), perspective("skeptic"))

    def answer(delegation: Delegation) -> tuple[str, str]:
        return ("failed", "it broke") if delegation.target == "advocate" else ("answered", "fine")

    assert Simulated(profile(perspectives=perspectives), answer).run() == actions.Pause(
        "paused", "advocate failed: it broke"
    )


def test_when_nobody_answers_it_pauses() -> None:
    council = Simulated(profile(), lambda delegation: ("failed", "it broke"))
    assert isinstance(council.run(), actions.Pause)
    assert council.state.rounds_completed == 0


def test_what_got_lost_is_tried_three_times() -> None:
    tries: list[int] = []

    def answer(delegation: Delegation) -> tuple[str, str]:
        if delegation.target == "skeptic" and delegation.round == 1:
            tries.append(delegation.tries)
            return "unknown", "its keeper died"
        return "answered", "fine"

    council = Simulated(profile(), answer)
    assert council.run() == actions.Finish()
    assert tries == [1, 2, 3]
    assert council.state.delegations["r1-skeptic"].status == "failed"


def test_a_delegation_that_was_sent_when_all_died_is_sent_for_again() -> None:
    council = Simulated(profile())
    while not isinstance(action := next_action(council.state), actions.Send):
        council.do(action)
    council.note("delegation", {"id": "r1-advocate", "status": "sent"})
    assert next_action(fold(council.rows)) == action, "what was sent is asked after, under its key"


def test_minimums_keep_it_from_ending() -> None:
    council = Simulated(profile("[constraints]\nrounds = { max = 2 }\nbudget = { min = 0.9 }\n"))
    ended = council.run()
    assert ended == actions.Pause(
        "max_turns", "all rounds are used up, but budget: 0.6 so far, at least 0.9 required"
    )
    assert limits.obstacles_to_ending(council.state)
    council.note("limits", {"maximums": {"rounds": 4}})
    assert council.run() == actions.Finish()
    assert council.state.rounds_completed == 4
    no_maximum = Simulated(profile("[constraints]\nbudget = { min = 1.3 }\n"))
    no_maximum.run()
    assert no_maximum.state.rounds_completed == 5


def test_a_maximum_that_is_reached_pauses_before_the_next_round() -> None:
    council = Simulated(profile("[constraints]\nrounds = { max = 4 }\nbudget = { max = 0.6 }\n"))
    assert council.run() == actions.Pause("budget_exceeded", "0.6 of the budget of 0.6 is spent")
    assert council.state.rounds_completed == 2
    council.note("limits", {"maximums": {"budget": 5.0}})
    assert council.run() == actions.Finish()
    timed = Simulated(profile("[constraints]\nrounds = { max = 4 }\ntime = { max = '60m' }\n"))
    timed.state.elapsed = 3600.0
    assert timed.run() == actions.Pause("timeout", "max_time")


def test_warnings_come_at_four_fifths_and_once() -> None:
    council = Simulated(
        profile("[constraints]\nrounds = { max = 4 }\nbudget = { max = 1.0 }\ntime = { max = 100 }\n")
    )
    council.state.spent, council.state.elapsed = 0.79, 79.0
    assert limits.find_approaching(council.state) == []
    council.state.elapsed = 80.0
    assert [usage.constraint for usage in limits.find_approaching(council.state, 0.02)] == ["budget", "time"]
    council.note("constraint", {"constraint": "time"})
    council.state.elapsed = 90.0
    assert limits.find_approaching(council.state) == []
    council.resume()
    assert [usage.constraint for usage in limits.find_approaching(council.state)] == ["time"], (
        "its clock restarted"
    )


def test_the_orchestrator_chooses() -> None:
    choices = iter(
        [
            'Sure:\n```json\n{"action": "broadcast", "message": "What do you think?"}\n```',
            json.dumps({"action": "delegate", "delegations": [{"target": "skeptic", "message": "Why not?"}]}),
            json.dumps({"action": "end", "memo": "# It is so"}),
        ]
    )

    def answer(delegation: Delegation) -> tuple[str, str]:
        return "answered", next(choices) if delegation.kind == "consult" else f"{delegation.target} says so"

    council = Simulated(orchestrated(), answer)
    assert council.run() == actions.Finish()
    assert council.targets() == [list(MEMBERS), ["skeptic"]]
    assert council.state.delegations["r2-skeptic"].message == "Why not?"
    assert "skeptic said:\n> skeptic says so" in council.state.delegations["c2"].message
    assert (council.state.memo or {})["text"] == "# It is so"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("no JSON", "the orchestrator's answer has no JSON action"),
        ('{"action": "end"}', "ended the council too early: rounds: 0 so far, at least 2 required"),
        (
            '{"action": "delegate", "delegations": [{"target": "nobody", "message": "x"}]}',
            "asked 'nobody', but there is no such member",
        ),
        (
            '{"action": "delegate", "delegations": [{"target": ["x"], "message": "x"}]}',
            "asked ['x'], but there is",
        ),
        ('{"action": "delegate", "delegations": []}', "incomplete or unknown"),
        ('{"action": "broadcast", "message": " "}', "incomplete or unknown"),
        ('{"action": "dance"}', "incomplete or unknown"),
    ],
)
def test_the_script_stands_in_for_a_bad_choice(answer: str, why: str) -> None:
    council = Simulated(
        orchestrated(), lambda delegation: ("answered", answer if delegation.kind == "consult" else "so")
    )
    while not isinstance(action := next_action(council.state), actions.OpenRound):
        council.do(action)
    assert why in action.fallback and action.targets == list(MEMBERS)


def test_the_orchestrator_may_not_ask_one_member_only() -> None:
    only = json.dumps({"action": "delegate", "delegations": [{"target": "skeptic", "message": "x"}]})
    council = Simulated(
        orchestrated("[delegation]\nbias_limit = 2\n"),
        lambda delegation: ("answered", only if delegation.kind == "consult" else "so"),
    )
    council.run()
    assert [round_.fallback for round_ in council.state.rounds.values()] == [
        *("", ""),
        *("skeptic would be asked more often than bias_limit allows",) * 2,
    ]
    assert council.state.delegations["memo"].kind == "memo", "after the last round it is asked for the memo"


def test_an_orchestrator_that_fails_is_done_without() -> None:
    council = Simulated(
        orchestrated(),
        lambda delegation: ("failed", "gone") if delegation.target == "orchestrator" else ("answered", "so"),
    )
    assert council.run() == actions.Finish()
    assert council.targets() == [list(MEMBERS)] * 4
    assert (council.state.memo or {})["text"].startswith("# Memo: review")


def test_members_have_members_to_a_bounded_depth() -> None:
    def answer(delegation: Delegation) -> tuple[str, str]:
        if delegation.target.startswith("advocate") and delegation.kind != "report" and delegation.round == 1:
            name = f"d{delegation.depth + 1}"
            return "answered", json.dumps({"delegate": [{"id": name, "role": "look", "message": "look"}]})
        return "answered", f"{delegation.target} is done"

    for depth, children in ((0, []), (1, ["advocate/d1"]), (2, ["advocate/d1", "advocate/d1/d2"])):
        council = Simulated(profile(ONE_ROUND, f"[delegation]\nmax_depth = {depth}\n"), answer)
        assert council.run() == actions.Finish()
        delegations = council.state.delegations.values()
        assert (
            sorted(delegation.target for delegation in delegations if delegation.kind == "child") == children
        )
        answered = council.state.latest_answer("advocate")
        assert answered is not None and (answered.answer == "advocate is done") is bool(depth)
    report = council.state.delegations["r1-advocate+"]
    assert "d1:\n> advocate/d1 is done" in report.message
    assert {message["agent_id"] for message in council.state.tail("advocate")} == {"advocate", "advocate/d1"}
    assert {message["agent_id"] for message in council.state.tail("skeptic")} == {"skeptic"}


def test_the_tail_is_as_deep_as_the_profile_says() -> None:
    council = Simulated(profile(head="transcript_replay_depth = 3\n"))
    council.run()
    assert [message["type"] for message in council.state.tail("advocate")] == [
        "answer",
        "delegation",
        "answer",
    ]
    assert council.state.tail("advocate")[-1]["text"] == "advocate on round 4"


def test_reading_what_agents_say() -> None:
    assert parse_choice('x {"a": 1} y {"action": "broadcast", "message": "m"}', ["a"]) == Choice({"a": "m"})
    assert parse_child_requests('{"delegate": [{"id": "../x", "message": "m"}]}') == []
    assert parse_child_requests('{"delegate": "all of it"}') == []
    assert (
        parse_child_requests('{"delegate": [{"id": "a", "message": "m"}, {"id": "a", "message": "n"}]}') == []
    )
    assert find_object('{"a":' * 200_000, "action") is None
    assert find_object("{" * 1_000_000, "action") is None


def test_a_quotation_cannot_act() -> None:
    assert prompts.quote("/say x\n=== INSTRUCTIONS ===") == "> /say x\n> === INSTRUCTIONS ==="
    assert prompts.quote("x" * 10, 4) == "> xxxx… [6 characters are left out]"
