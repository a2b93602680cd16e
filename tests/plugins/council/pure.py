"""A council without processes: the planner's actions carried out in memory, on rows like those of the log."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import orjson
from agh_council import actions
from agh_council.fold import apply, fold
from agh_council.planner import next_action
from agh_council.state import Delegation, State
from agh_council.views import outcome_view
from agh_echo import script

from agh.core.events import Row, draft, timestamp

Answer = Callable[[Delegation], tuple[str, str]]  # a status, and the answer or the reason


def echoed(delegation: Delegation) -> tuple[str, str]:
    """Answer as the embedded agent would to plain lines, /say and /sleep."""
    formats = {"echo": "echo: {}", "say": "{}"}
    steps = script.parse(delegation.message)
    return "answered", "\n".join(formats[name].format(text) for name, text in steps if name != "sleep")


def simulated(profile: str, brief: str) -> dict[str, Any]:
    """Return the outcome of a council of embedded agents, without a process."""
    council = Simulated(profile, echoed, brief)
    assert council.run() == actions.Finish()
    return outcome_view(council.state)


def _answer_by_default(delegation: Delegation) -> tuple[str, str]:
    return "answered", f"{delegation.target} on round {delegation.round}"


class Simulated:
    """A council in memory. It does what the planner says, asks `answer` for answers, and keeps every row."""

    def __init__(self, profile: str, answer: Answer | None = None, brief: str = "Why?") -> None:
        self.rows: list[Row] = []
        self.state = State(session_id="sess-00000000")
        self.answer = answer or _answer_by_default
        self.actions: list[actions.Action] = []
        self.note("opened", {"profile": tomllib.loads(profile), "brief": brief, "workspace": "/w"})

    def add(self, type: str, **fields: Any) -> None:
        event = draft(type, **fields)
        row = Row(len(self.rows) + 1, "", event.type, "council", event.content, timestamp())
        self.rows.append(row)
        apply(self.state, row)

    def note(self, action: str, payload: dict[str, Any]) -> None:
        self.add("system", action=action, council=orjson.loads(orjson.dumps(payload)))

    def run(self, most: int = 200) -> actions.Action:
        """Carry out actions until it finishes or pauses."""
        for _ in range(most):
            action = next_action(self.state)
            assert next_action(self.state) == action, "the same state gives the same action"
            self.actions.append(action)
            if isinstance(action, actions.Pause | actions.Finish):
                assert fold(self.rows, self.state.session_id) == replace(self.state, elapsed=0.0)
                return action
            self.do(action)
        raise AssertionError("it does not end")

    def do(self, action: actions.Action) -> None:
        state = self.state
        match action:
            case actions.OpenRound():
                payload = {
                    **action._asdict(),
                    "steers": state.steers,
                    "feedback": state.feedback,
                    "status": "open",
                }
                self.note("round", payload)
            case actions.Delegate(delegations):
                for delegation in delegations:
                    self.note("delegation", {**asdict(delegation), "status": "pending"})
            case actions.Send(ids):
                for id in ids:
                    self._send(state.delegations[id])
            case actions.Retry(ids):
                for id in ids:
                    tries = state.delegations[id].tries + 1
                    self.note("delegation", {"id": id, "status": "pending", "tries": tries})
            case actions.GiveUp(ids):
                for id in ids:
                    tries = state.delegations[id].tries
                    self.note("delegation", {"id": id, "status": "failed", "tries": tries})
            case actions.CloseRound(number, status):
                self.note("round", {"number": number, "status": status})
            case actions.AskGate(number, attempt, prompt):
                self.note(
                    "gate", {"round": number, "attempt": attempt, "prompt": prompt, "status": "waiting"}
                )
            case actions.WriteMemo(text):
                self.note("memo", {"path": "memo.md", "text": text})

    def _send(self, delegation: Delegation) -> None:
        self.note("delegation", {"id": delegation.id, "status": "sent"})
        status, text = self.answer(delegation)
        if status == "answered":
            self.add(
                "agent_message",
                text=text,
                agent_id=delegation.target,
                council={"delegation": delegation.id, "cost": 0.1},
            )
        else:
            self.note("delegation", {"id": delegation.id, "status": status, "detail": text})

    def decide(self, status: str, feedback: str = "") -> None:
        gate = self.state.waiting_gate
        assert gate is not None
        self.note("gate", {**gate, "status": status, "feedback": feedback})

    def resume(self) -> None:
        self.add("session_resumed", strategy="council")

    def targets(self) -> list[list[str]]:
        return [round_.targets for _, round_ in sorted(self.state.rounds.items())]
