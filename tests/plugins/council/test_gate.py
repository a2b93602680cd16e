"""A gate: the council stops there, its processes end, and a person decides whenever."""

from __future__ import annotations

import json

from tests.plugins.council.support import Council, perspective, profile
from tests.support.receiver import receiver
from tests.support.wait import wait_until

GATED = profile(
    "[delegation]\n[constraints]\nrounds = { max = 3 }\n[[gates]]\nafter_round = 2\nprompt = 'Go on?'\n",
    perspectives=(perspective("a"),),
)


def test_a_gate_survives_the_process(council: Council) -> None:
    view = council.run(GATED, code=5)
    assert (view["phase"], view["stop_reason"], view["stop_detail"]) == ("paused", "paused", "gate: Go on?")
    assert view["gate"] == {"after_round": 2, "prompt": "Go on?"}
    wait_until(lambda: not council.live.processes(), what="nothing runs while it waits")
    error = council.error("resume", code=5)
    assert error["code"] == "gate_waits" and "gate approve" in error["hint"]
    assert council.session.error("resume", code=5)["code"] == "gate_waits"
    council.agh("gate reject", "--feedback", "too vague", code=5)
    state = council.state()
    assert (state.rounds_completed, state.rounds[2].attempt) == (2, 2), "the step was done again"
    prompts = [
        text for text in council.prompts("a") if "The operator rejected the last result: too vague" in text
    ]
    assert len(prompts) == 1
    assert "r2-a" in state.delegations and "r2.2-a" in state.delegations
    council.agh("gate approve", "--later")
    assert council.status()["phase"] == "paused"
    assert council.resume()["phase"] == "completed"
    assert council.state().rounds_completed == 3
    assert council.error("gate approve", code=6)["code"] == "no_gate"
    council.session.check_log()


def test_a_gate_is_answered_from_the_inbox_and_only_that_gate(council: Council) -> None:
    council.run(GATED, code=5)
    (entry,) = json.loads(council.live.agh("inbox", "-o", "json").stdout)["inbox"]
    assert (entry["kind"], entry["about"]) == ("gate", "Go on?")
    assert council.live.agh("inbox", "--count").stdout == "1\n"
    council.live.agh("inbox", "deny", entry["number"], code=2)
    sequence = int(entry["key"].rpartition("-")[2])
    council.agh("gate reject", "--feedback", "too vague", "--sequence", sequence, code=5)
    (again,) = json.loads(council.live.agh("inbox", "-o", "json").stdout)["inbox"]
    assert again["number"] != entry["number"], "the same step, but another gate"
    assert council.live.agh("inbox", "approve", entry["number"], code=4)
    assert council.error("gate approve", "--sequence", str(sequence), code=6)["code"] == "no_gate"
    council.live.agh("inbox", "approve", again["number"])
    wait_until(lambda: council.status()["phase"] == "completed")
    assert council.live.agh("inbox", "--count", code=1).stdout == "0\n"
    council.session.check_log()


def test_a_gate_that_is_decided_for_later_does_not_wait(council: Council) -> None:
    council.run(GATED, code=5)
    council.agh("gate approve", "--later")
    council.live.agh("inbox", code=1)
    assert council.live.agh("inbox", "--count", code=1).stdout == "0\n"


def test_a_gate_notifies(council: Council) -> None:
    with receiver() as server:
        council.live.configure(f'[notify]\nwebhook = "{server.url}"\n')
        council.run(GATED, code=5)
        content = server.next().content
    assert (content["event"], content["text"]) == ("needs_you", "Go on?")
    assert content["title"].endswith("is waiting for your approval")
